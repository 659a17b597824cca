-- db.query, db.get, db.count, db.search, db.backlinks, db.profiles, db.backend: reading the index.
local host, internal = ...
local query, get, count, backend = host.db.query, host.db.get, host.db.count, host.db.backend
local backlinks = host.db.backlinks
local link_counts, links_by = host.db.link_counts, host.db.links_by
local search, profiles = host.db.search, host.db.profiles
local query_space, count_space = host.spaces.query, host.spaces.count
local array, raise, null = internal.array, internal.raise, internal.null
local lower, sub, next, tointeger, tonumber, type = string.lower, string.sub, next, math.tointeger, tonumber, type

-- More levels than the host accepts. The host reports the error; this only bounds the recursion.
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

-- An integer, given as a number or as text, since values of params are strings.
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

-- A boolean, given as one or as text, since values of params are strings.
local function truth(value, what)
  if value == nil or value == null then
    return nil
  end
  if value == true or value == "true" then
    return true
  end
  if value == false or value == "false" then
    return false
  end
  raise(what .. ": true or false expected")
end

local function ascending(direction, what)
  direction = text(direction, what .. ": sortDirection")
  if not direction then
    return false
  end
  direction = lower(direction)
  if direction ~= "asc" and direction ~= "desc" then
    raise(what .. ": sortDirection must be 'asc' or 'desc'")
  end
  return direction == "asc"
end

-- Names of keys, each after "-" if its values descend.
local function sort_keys(names, what)
  local keys = {}
  for i = 1, #names do
    local name = required(names[i], what .. " " .. i)
    local descends = sub(name, 1, 1) == "-"
    keys[i] = { key = descends and sub(name, 2) or name, ascending = not descends }
  end
  return keys
end

-- The keys of the order. A list has names, each after "-" if its values descend; a name alone takes `sortDirection`.
local function order_of(options, what)
  local sort = options.sort
  if type(sort) ~= "table" then
    local key, ascends = text(sort, what .. ": sort"), ascending(options.sortDirection, what)
    if not key then
      return ascends and { { key = "indexed_at", ascending = true } } or {}
    end
    return { { key = key, ascending = ascends } }
  end
  if options.sortDirection ~= nil and options.sortDirection ~= null then
    raise(what .. ': sortDirection is for one key; in a list of keys "-name" descends')
  end
  local keys = sort_keys(sort, what .. ": sort")
  if #keys == 0 then
    raise(what .. ": sort: a list needs a key")
  end
  return keys
end

local CONDITION = { field = true, op = true, value = true }
local GROUP = { combine = true, field = true }

-- Converts a group { combine, child, child, ... } to { combine, children }: JSON can't mix object and array.
local function condition(node, level, what)
  if type(node) ~= "table" or level > MAX_LEVELS then
    return node
  end
  if node.field ~= nil then
    return internal.options(node, CONDITION, what)
  end
  local names = {}
  for name, value in next, node do
    if type(name) ~= "number" then
      names[name] = value
    end
  end
  internal.options(names, GROUP, what)
  local children = array({})
  for i = 1, #node do
    children[i] = condition(node[i], level + 1, what)
  end
  return { combine = node.combine, children = children }
end

-- The option `did`: one account, or a list of several.
local function accounts(options, what)
  local did = options.did
  what = what .. ": did"
  if type(did) ~= "table" then
    return text(did, what), nil
  end
  local list = array({})
  for i = 1, #did do
    list[i] = required(did[i], what .. " " .. i)
  end
  return nil, list
end

local function filter_of(options, what)
  local filter = options.filter
  what = what .. ": filter"
  if filter == nil or filter == null then
    return nil
  elseif type(filter) ~= "table" then
    raise(what .. ": table expected, got " .. type(filter))
  end
  return condition(filter, 1, what)
end

-- Refuses the option `space` of a function that reads the index only.
local function outside_spaces(options, what)
  if type(options) == "table" and options.space ~= nil then
    raise(what .. ": it reads public records only; read those of a space with db.query")
  end
end

-- The checks of arguments, for the other files of `db`.
internal.arguments = {
  text = text, required = required, whole = whole, truth = truth, accounts = accounts, filter_of = filter_of,
  sort_keys = sort_keys, outside_spaces = outside_spaces,
}

db = db or {}

local QUERY = {
  collection = true, did = true, limit = true, cursor = true, sort = true, sortDirection = true, filter = true,
  valid = true, space = true,
}
local SPACE_QUERY = { space = true, collection = true, did = true, limit = true, cursor = true, sortDirection = true }

-- A page of the records in a space. `limit` is the default.
function internal.query_space(space, options, limit, what)
  return query_space {
    space = required(space, what .. ": space"),
    collection = text(options.collection, what .. ": collection"),
    did = text(options.did, what .. ": did"),
    limit = whole(options.limit, what .. ": limit") or limit,
    cursor = text(options.cursor, what .. ": cursor"),
    ascending = ascending(options.sortDirection, what),
  }
end

-- Takes { collection, did, limit, cursor, sort, sortDirection, filter, valid }, where sort may be a list of keys; returns { records, cursor }. With { space }
-- it reads the records in that space, and takes no filter and no sort.
function db.query(options)
  internal.options(options, QUERY, "db.query")
  local space = text(options.space, "db.query: space")
  if space then
    required(options.collection, "db.query: collection")
    return internal.query_space(space, internal.options(options, SPACE_QUERY, "db.query in a space"), nil, "db.query")
  end
  local did, dids = accounts(options, "db.query")
  return query {
    collection = required(options.collection, "db.query: collection"),
    did = did,
    dids = dids,
    limit = whole(options.limit, "db.query: limit"),
    cursor = text(options.cursor, "db.query: cursor"),
    sort = order_of(options, "db.query"),
    filter = filter_of(options, "db.query"),
    valid = truth(options.valid, "db.query: valid"),
  }
end

-- The record at a full AT URI, or nil.
function db.get(uri)
  return get(required(uri, "db.get: uri"))[1]
end

local COUNT = { collection = true, did = true, filter = true, valid = true, space = true }
local SPACE_COUNT = { collection = true, did = true, space = true }

-- The number of records in a collection, of one account or of all; with a space, of the records in it. Takes { collection, did,
-- filter, valid, space }, or collection, did and space.
function db.count(options, did, space)
  if type(options) ~= "table" then
    options = { collection = options, did = did, space = space }
  end
  internal.options(options, COUNT, "db.count")
  local collection = required(options.collection, "db.count: collection")
  space = text(options.space, "db.count: space")
  if space then
    internal.options(options, SPACE_COUNT, "db.count in a space")
    return count_space(space, collection, text(options.did, "db.count: did"))
  end
  local one, several = accounts(options, "db.count")
  return count {
    collection = collection,
    did = one,
    dids = several,
    filter = filter_of(options, "db.count"),
    valid = truth(options.valid, "db.count: valid"),
  }
end

-- db.backlinks -------------------------------------------------------------------------------------------------------

local BACKLINKS = {
  collection = true, target = true, uri = true, path = true, did = true, limit = true, cursor = true, uris_only = true,
}

-- Takes { collection, target, path, did, limit, cursor, uris_only }, returns { records, cursor }: the collection's records that refer
-- to the target. `uri` is another name of it.
function db.backlinks(options)
  outside_spaces(options, "db.backlinks")
  internal.options(options, BACKLINKS, "db.backlinks")
  return backlinks {
    collection = required(options.collection, "db.backlinks: collection"),
    target = required(options.target or options.uri, "db.backlinks: target"),
    path = text(options.path, "db.backlinks: path"),
    did = text(options.did, "db.backlinks: did"),
    limit = whole(options.limit, "db.backlinks: limit"),
    cursor = text(options.cursor, "db.backlinks: cursor"),
    uris_only = truth(options.uris_only, "db.backlinks: uris_only") or false,
  }
end

-- db.link_counts, db.links_by ----------------------------------------------------------------------------------------

local KIND = { collection = true, path = true }

-- Kinds of links as the host takes them: from { name = { collection, path } }, or { name = collection }.
local function kinds_of(kinds, what)
  if type(kinds) ~= "table" then
    raise(what .. ": kinds: table expected, got " .. type(kinds))
  end
  local given = {}
  for name, kind in next, kinds do
    name = required(name, what .. ": the name of a kind")
    local of = what .. ": " .. name
    if type(kind) == "string" then
      kind = { collection = kind }
    end
    internal.options(kind, KIND, of)
    given[#given + 1] = {
      name = name,
      collection = required(kind.collection, of .. ": collection"),
      path = text(kind.path, of .. ": path"),
    }
  end
  return given
end

local function targets_of(targets, what)
  if type(targets) ~= "table" then
    raise(what .. ": targets: table expected, got " .. type(targets))
  end
  return targets
end

-- How many records link to each target: a table by target, of tables by the name of the kind.
function db.link_counts(targets, kinds)
  local what = "db.link_counts"
  return link_counts(targets_of(targets, what), kinds_of(kinds, what))
end

-- By which record an account links to each target: a table by target, of tables by the name of the kind.
function db.links_by(did, targets, kinds)
  local what = "db.links_by"
  return links_by(required(did, what .. ": did"), targets_of(targets, what), kinds_of(kinds, what))
end

-- db.search -----------------------------------------------------------------------------------------------------------
local SEARCH = { collection = true, field = true, fields = true, query = true, limit = true, cursor = true }

-- The paths of a search: one, or a list.
local function fields_of(options)
  local fields = options.fields
  if fields == nil or fields == null then
    return { required(options.field, "db.search: field") }
  end
  if options.field ~= nil then
    raise("db.search: field and fields can't be given together")
  elseif type(fields) ~= "table" then
    raise("db.search: fields: table expected, got " .. type(fields))
  end
  local list = {}
  for i = 1, #fields do
    list[i] = required(fields[i], "db.search: fields " .. i)
  end
  return list
end

-- Takes { collection, field, fields, query, limit, cursor }, returns { records, cursor }.
function db.search(options)
  outside_spaces(options, "db.search")
  internal.options(options, SEARCH, "db.search")
  return search {
    collection = required(options.collection, "db.search: collection"),
    fields = fields_of(options),
    text = required(options.query, "db.search: query"),
    limit = whole(options.limit, "db.search: limit"),
    cursor = text(options.cursor, "db.search: cursor"),
  }
end

-- The profiles of many accounts: a table from DID to { did, handle, uri, cid, record }.
function db.profiles(dids)
  if type(dids) ~= "table" then
    raise("db.profiles: table expected, got " .. type(dids))
  end
  return profiles(dids)
end

-- "sqlite" or "postgres".
function db.backend()
  return backend()
end
