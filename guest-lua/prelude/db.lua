-- db.query, db.get, db.count, db.search, db.backlinks, db.profiles, db.raw, db.backend: reading the index, and SQL.
local host, internal = ...
local query, get, count, backend = host.db.query, host.db.get, host.db.count, host.db.backend
local backlinks, raw = host.db.backlinks, host.db.raw
local link_counts, links_by = host.db.link_counts, host.db.links_by
local search, profiles = host.db.search, host.db.profiles
local query_space, count_space = host.spaces.query, host.spaces.count
local array, raise, null = internal.array, internal.raise, internal.null
local lower, next, tointeger, tonumber, type = string.lower, next, math.tointeger, tonumber, type

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

db = {}

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

-- Takes { collection, did, limit, cursor, sort, sortDirection, filter, valid }, returns { records, cursor }. With { space }
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
    sort = text(options.sort, "db.query: sort"),
    ascending = ascending(options.sortDirection, "db.query"),
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

-- Refuses the option `space` of a function that reads the index only.
local function outside_spaces(options, what)
  if type(options) == "table" and options.space ~= nil then
    raise(what .. ": it reads public records only; read those of a space with db.query")
  end
end

-- db.backlinks -------------------------------------------------------------------------------------------------------

local BACKLINKS = { collection = true, target = true, uri = true, path = true, did = true, limit = true, cursor = true }

-- Takes { collection, target, path, did, limit, cursor }, returns { records, cursor }: the collection's records that refer to
-- the target. `uri` is another name of it.
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

-- db.raw -------------------------------------------------------------------------------------------------------------

-- Runs one SQL statement with params for $1, $2, … Returns the rows, and how many were changed.
function db.raw(sql, params)
  sql = required(sql, "db.raw: sql")
  local given = array({})
  if params ~= nil and params ~= null then
    if type(params) ~= "table" then
      raise("db.raw: params: table expected, got " .. type(params))
    end
    for i = 1, #params do
      local value = params[i]
      if value == nil then
        raise("db.raw: params: a nil at " .. i .. " (use json.null)")
      end
      given[i] = value
    end
  end
  local answer = raw(sql, given)
  return answer.rows, answer.changed
end

-- db.search -----------------------------------------------------------------------------------------------------------
local SEARCH = { collection = true, field = true, query = true, limit = true }

-- Takes { collection, field, query, limit }, returns { records }.
function db.search(options)
  outside_spaces(options, "db.search")
  internal.options(options, SEARCH, "db.search")
  return {
    records = search {
      collection = required(options.collection, "db.search: collection"),
      field = required(options.field, "db.search: field"),
      text = required(options.query, "db.search: query"),
      limit = whole(options.limit, "db.search: limit"),
    },
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
