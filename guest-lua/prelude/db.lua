-- db.query, db.get, db.count, db.backend: reading the index.
local host, internal = ...
local query, get, count, backend = host.db.query, host.db.get, host.db.count, host.db.backend
local array, raise, null = internal.array, internal.raise, internal.null
local lower, tointeger, tonumber, type = string.lower, math.tointeger, tonumber, type

-- More levels than the host accepts: it says what is wrong, this only ends the walk.
local MAX_LEVELS = 8

local function text(value, what)
  if value == nil or value == null then
    return nil
  end
  if type(value) ~= "string" then
    raise(what .. ": string expected, got " .. type(value))
  end
  return value
end

local function required(value, what)
  value = text(value, what)
  if not value then
    raise(what .. " is required")
  end
  return value
end

-- A whole number, also as text: params hold strings.
local function whole(value, what)
  if value == nil or value == null then
    return nil
  end
  local number = tointeger(tonumber(value))
  if not number then
    raise(what .. ": integer expected")
  end
  return number
end

local function ascending(direction)
  direction = text(direction, "db.query: sortDirection")
  if not direction then
    return false
  end
  direction = lower(direction)
  if direction ~= "asc" and direction ~= "desc" then
    raise("db.query: sortDirection must be 'asc' or 'desc'")
  end
  return direction == "asc"
end

-- A group is { combine, child, child, ... }: half object, half array, which JSON has no form for.
local function condition(node, level)
  if type(node) ~= "table" or node.field ~= nil or level > MAX_LEVELS then
    return node
  end
  local children = array({})
  for i = 1, #node do
    children[i] = condition(node[i], level + 1)
  end
  return { combine = node.combine, children = children }
end

db = {}

-- { collection, did, limit, cursor, sort, sortDirection, filter } to { records, cursor }.
function db.query(options)
  if type(options) ~= "table" then
    raise("db.query: table expected, got " .. type(options))
  end
  local filter = options.filter
  if filter == null then
    filter = nil
  elseif filter ~= nil and type(filter) ~= "table" then
    raise("db.query: filter: table expected, got " .. type(filter))
  end
  return query {
    collection = required(options.collection, "db.query: collection"),
    did = text(options.did, "db.query: did"),
    limit = whole(options.limit, "db.query: limit"),
    cursor = text(options.cursor, "db.query: cursor"),
    sort = text(options.sort, "db.query: sort"),
    ascending = ascending(options.sortDirection),
    filter = filter and condition(filter, 1),
  }
end

-- The record at a full AT URI, or nil.
function db.get(uri)
  return get(required(uri, "db.get: uri"))[1]
end

-- How many records a collection has, of one account or of all.
function db.count(collection, did)
  return count(required(collection, "db.count: collection"), text(did, "db.count: did"))
end

-- "sqlite" or "postgres".
function db.backend()
  return backend()
end
