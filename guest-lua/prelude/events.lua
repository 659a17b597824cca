-- event: what happened, as one table beside the globals of the same names.
local _, internal = ...

internal.on_start(function(context)
  if context.kind == "record" then
    event = { action = action, uri = uri, did = did, collection = collection, rkey = rkey, record = record }
  elseif context.kind == "label" then
    event = { src = src, uri = uri, val = val, neg = neg, cts = cts, exp = exp }
  end
end)
