-- xrpc.query, xrpc.query_all, xrpc.procedure: methods of this server and of others.
local host, internal = ...
local query, query_all, procedure = host.xrpc.query, host.xrpc.query_all, host.xrpc.procedure
local raise, array, null, on_start = internal.raise, internal.array, internal.null, internal.on_start
local next, type = next, type

local function name(nsid, what)
  if type(nsid) ~= "string" then
    raise(what .. ": nsid: string expected, got " .. type(nsid))
  end
  return nsid
end

-- nil instead of an empty table: no params.
local function params_of(params, what)
  if params == nil or params == null then
    return nil
  end
  if type(params) ~= "table" then
    raise(what .. ": params: table expected, got " .. type(params))
  end
  if next(params) == nil then
    return nil
  end
  return params
end

xrpc = {}

-- The response of GET /xrpc/nsid: { status, body }, the body as text.
function xrpc.query(nsid, params)
  return query(name(nsid, "xrpc.query"), params_of(params, "xrpc.query"))
end

-- Makes several queries concurrently: takes an array of { nsid, params }, returns an array of responses in the same order. A call that
-- failed gives { error = { code, message } }.
function xrpc.query_all(calls)
  if type(calls) ~= "table" then
    raise("xrpc.query_all: table expected, got " .. type(calls))
  end
  local list = {}
  for i = 1, #calls do
    local one, what = calls[i], "xrpc.query_all: call " .. i
    if type(one) ~= "table" then
      raise(what .. ": table expected, got " .. type(one))
    end
    list[i] = { nsid = name(one.nsid, what), params = params_of(one.params, what) }
  end
  local outcomes = query_all(list)
  local answers = array({})
  for i = 1, #outcomes do
    local fault = outcomes[i].fault
    answers[i] = fault and { error = { code = fault.code, message = fault.message } } or outcomes[i].answer
  end
  return answers
end

-- The response of POST /xrpc/nsid with input as its body.
function xrpc.procedure(nsid, input, params)
  return procedure(name(nsid, "xrpc.procedure"), input, params_of(params, "xrpc.procedure"))
end

-- A script of a record or label event has no caller, and the event's author must not cause writes on behalf of others.
on_start(function(context)
  if context.kind == "record" or context.kind == "label" then
    xrpc.procedure = nil
  end
end)
