-- internal.copy_sent: which fields of a record are sent, and the log of those that are not.
local host, internal = ...
local log_left_out = host.repo.log_left_out
local next, type = next, type

-- The names that this run has logged, by collection.
local logged = {}

-- Logs the names of fields that are not sent, each once in a run.
local function log(collection, names)
  local known = logged[collection]
  if not known then
    known = {}
    logged[collection] = known
  end
  local new = {}
  for i = 1, #names do
    if not known[names[i]] then
      known[names[i]] = true
      new[#new + 1] = names[i]
    end
  end
  if #new > 0 then
    log_left_out(collection, new)
  end
end

-- Copies the fields in `sources`, an array of tables, to `value`: all of them without `properties`, which the lexicon
-- declares; else those with a name in `properties`, or in `had` if it is given.
function internal.copy_sent(collection, sources, value, properties, had)
  local left_out
  for i = 1, #sources do
    for name, field in next, sources[i] do
      -- A field whose name is no text makes the record invalid, which is an error and so is not hidden.
      if not properties or properties[name] ~= nil or had and had[name] or type(name) ~= "string" then
        value[name] = field
      elseif name ~= "$type" then
        left_out = left_out or {}
        left_out[#left_out + 1] = name
      end
    end
  end
  if left_out then
    log(collection, left_out)
  end
end
