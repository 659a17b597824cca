-- db.group: counts records by their values.
local host, internal = ...
local group = host.db.group
local raise, null = internal.raise, internal.null
local type = type

db = db or {}

local KEY = { field = true, bucket = true, as = true }

-- The keys as the host takes them: from a list of paths and { field, bucket, as }, or one path.
local function keys_of(by)
  if type(by) == "string" then
    by = { by }
  end
  if type(by) ~= "table" then
    raise("db.group: by: table expected, got " .. type(by))
  end
  local arguments, keys = internal.arguments, {}
  for i = 1, #by do
    local key, what = by[i], "db.group: by " .. i
    if type(key) ~= "table" then
      key = { field = key }
    end
    internal.options(key, KEY, what)
    keys[i] = {
      field = arguments.required(key.field, what .. ": field"),
      bucket = arguments.text(key.bucket, what .. ": bucket"),
      name = arguments.text(key.as, what .. ": as"),
    }
  end
  return keys
end

local GROUP = {
  collection = true, by = true, did = true, filter = true, valid = true, order = true, limit = true,
}

-- Takes { collection, by, did, filter, valid, order, limit }, returns a list of { <key>, …, count }.
function db.group(options)
  local arguments = internal.arguments
  arguments.outside_spaces(options, "db.group")
  internal.options(options, GROUP, "db.group")
  local order = options.order
  if type(order) == "string" then
    order = { order }
  elseif order == nil or order == null then
    order = {}
  elseif type(order) ~= "table" then
    raise("db.group: order: table expected, got " .. type(order))
  end
  local did, dids = arguments.accounts(options, "db.group")
  return group {
    collection = arguments.required(options.collection, "db.group: collection"),
    by = keys_of(options.by),
    did = did,
    dids = dids,
    filter = arguments.filter_of(options, "db.group"),
    valid = arguments.truth(options.valid, "db.group: valid"),
    order = arguments.sort_keys(order, "db.group: order"),
    limit = arguments.whole(options.limit, "db.group: limit"),
  }
end
