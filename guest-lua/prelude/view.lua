-- view.page: the answer of a view as a table.
local host, internal = ...
local query, decode, raise = host.xrpc.query, internal.decode, internal.raise
local error, pcall, tostring = error, pcall, tostring
local null, next, type = internal.null, next, type

view = {}

-- The output of a query method that a view answers. Raises the error that a caller would get.
function view.page(nsid, params)
  if type(nsid) ~= "string" then
    raise("view.page: nsid: string expected, got " .. type(nsid))
  end
  if params ~= nil and params ~= null and type(params) ~= "table" then
    raise("view.page: params: table expected, got " .. type(params))
  end
  if params == null or type(params) == "table" and next(params) == nil then
    params = nil
  end
  local answer = query(nsid, params)
  if answer.status == 200 then
    return decode(answer.body)
  end
  local ok, body = pcall(decode, answer.body)
  local refusal = ok and type(body) == "table" and type(body.error) == "string" and body
  if refusal and answer.status < 500 then
    error({ status = answer.status, error = refusal.error, message = refusal.message })
  end
  raise("view.page: " .. nsid .. ": " .. (refusal and tostring(refusal.message or refusal.error) or "status " .. answer.status))
end
