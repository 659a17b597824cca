-- view.page: the answer of a view as a table.
local host, internal = ...
local query, decode, raise = host.xrpc.query, internal.decode, internal.raise
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
  local body = decode(answer.body)
  if answer.status ~= 200 then
    local reason = type(body) == "table" and (body.message or body.error)
    raise("view.page: " .. nsid .. ": " .. (type(reason) == "string" and reason or "status " .. answer.status))
  end
  return body
end
