-- event: a table with the same values as the globals of a record or label script.
local _, internal = ...

internal.on_start(function(context)
  if context.kind == "record" then
    event = { action = action, uri = uri, did = did, collection = collection, rkey = rkey, record = record }
  elseif context.kind == "label" then
    event = { src = src, uri = uri, val = val, neg = neg, cts = cts, exp = exp }
  end
end)
