-- xrpc.query, xrpc.procedure: methods of this server and of others.
local host, internal = ...
local query, procedure = host.xrpc.query, host.xrpc.procedure
local raise, null, on_start = internal.raise, internal.null, internal.on_start
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
