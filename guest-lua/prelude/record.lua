-- Record: building, loading, saving and deleting records.
local host, internal = ...
local schema_of, load, save = host.repo.schema, host.repo.load, host.repo.save
local save_local, delete_local = host.repo.save_local, host.repo.delete_local
local tid = host.clock.tid
local array, raise, text, null = internal.array, internal.raise, internal.text, internal.null
local encode, decode = internal.encode, internal.decode
local find, match = string.find, string.match
local next, rawget, rawset, setmetatable, tostring, type = next, rawget, rawset, setmetatable, tostring, type

-- A record object is a table with the record's fields and nothing else. The runtime's data is in `states`, where
-- scripts can't change it, not even with rawset: collection, uri, cid, rkey, key_type, repo, space, `hidden`, the record's
-- fields whose names clash with our internals or methods, `had`, the names of the fields that a loaded record had, and
-- `open`, whether undeclared fields are sent. `shown` has for each object the fields that its JSON form has in addition
-- to its own; the JSON encoder reads it.
local states = setmetatable({}, { __mode = "k" })
local metatable, shown = internal.record_metatable, internal.record_shown
local methods = {}

-- The limit of one commit.
local MAX_WRITES = 200
local MAX_RKEY = 512

local function state_of(object, what)
  local state = type(object) == "table" and states[object]
  if not state then
    raise(what .. ": a record expected, got " .. type(object))
  end
  return state
end

-- The schemas loaded in this run, by collection; false for a collection without one.
local schemas = {}

local function schema(collection)
  local known = schemas[collection]
  if known == nil then
    known = schema_of(collection)
    if known == null then
      known = false
    end
    schemas[collection] = known
  end
  return known
end

local function key_type(state)
  if state.key_type == nil then
    local known = schema(state.collection)
    state.key_type = known and known.key or nil
  end
  return state.key_type
end

local internals = {
  _uri = function(state) return state.uri end,
  _cid = function(state) return state.cid end,
  _collection = function(state) return state.collection end,
  _rkey = function(state) return state.rkey end,
  _repo = function(state) return state.repo end,
  _space = function(state) return state.space end,
  _key_type = key_type,
  _schema = function(state)
    local known = schema(state.collection)
    return known and known.record or nil
  end,
}

function metatable.__index(object, name)
  local method = methods[name]
  if method then
    return method
  end
  local read = internals[name]
  return read and read(states[object])
end

function metatable.__newindex(object, name, value)
  if internals[name] then
    raise("a record's " .. name .. " can't be set")
  elseif methods[name] then
    raise("a record's " .. name .. " is a function and can't be set")
  end
  rawset(object, name, value)
end

function metatable.__tostring(object)
  local state = states[object]
  return "Record(" .. state.collection .. ") [" .. (state.uri and "uri=" .. state.uri or "unsaved") .. "]"
end

local function set_address(object, state, uri, cid)
  state.uri, state.cid = uri, cid
  state.rkey = uri and match(uri, "[^/]*$")
  shown[object].uri = uri
end

-- Turns a plain table of fields into a record object. `had` is a table for the names of a loaded record's fields; nil
-- for a new record, whose fields named like our internals are dropped.
local function object_of(collection, fields, had, open)
  local hidden, also = {}, {}
  for name, value in next, fields do
    if had then
      had[name] = true
    end
    if internals[name] or methods[name] then
      fields[name] = nil
      if had or methods[name] then
        hidden[name], also[name] = value, value
      end
    end
  end
  states[fields] = { collection = collection, hidden = hidden, had = had, open = open }
  shown[fields] = also
  return setmetatable(fields, metatable)
end

local RECORD_OPTIONS, SAVE_OPTIONS = { open = true }, { validate = true }

-- The option `open` of a record.
local function is_open(options, what)
  return internal.flag(options, "open", RECORD_OPTIONS, what, false)
end

-- The option `validate` of a call that saves.
local function validates(options, what)
  return internal.flag(options, "validate", SAVE_OPTIONS, what .. ": options", true)
end

local function create(collection, fields, options)
  text(collection, "Record: collection")
  local open = is_open(options, "Record: options")
  local own = {}
  if fields ~= nil and fields ~= null then
    if type(fields) ~= "table" then
      raise("Record: fields: table expected, got " .. type(fields))
    end
    for name, value in next, fields do
      if type(name) ~= "string" then
        raise("Record: fields: a name must be a string")
      end
      own[name] = value
    end
  end
  local known = schema(collection)
  if known then
    for name, value in next, known.defaults do
      if own[name] == nil then
        if type(value) == "table" then
          value = decode(encode(value)) -- a copy for each record
        end
        own[name] = value
      end
    end
  end
  return object_of(collection, own, nil, open)
end

local function loaded(found, open)
  local fields = found.value
  fields["$type"] = nil
  local object = object_of(match(found.uri, "([^/]*)/[^/]*$"), fields, {}, open)
  local state = states[object]
  state.space = found.space
  set_address(object, state, found.uri, found.cid)
  return object
end

local function check_rkey(rkey, what)
  text(rkey, what)
  if #rkey > MAX_RKEY or rkey == "." or rkey == ".." or not find(rkey, "^[%w._~:-]+$") then
    raise(what .. ": not a record key")
  end
  return rkey
end

-- A record key of the given key type: the literal's text, a new TID for "tid" and "any", nil for an unknown type.
local function key_of(kind, what)
  if kind == "tid" or kind == "any" then
    return tid()
  elseif kind == "nsid" then
    raise(what .. ": records of this collection have an NSID as their key, use set_rkey()")
  end
  return kind and match(kind, "^literal:(.*)$")
end

-- The properties that a collection's lexicon declares. nil for a collection without a lexicon, or whose lexicon declares
-- none: its records have any fields.
local function declared(collection)
  local known = schema(collection)
  local properties = known and known.record and known.record.properties
  return properties and next(properties) ~= nil and properties or nil
end

-- The value as it is stored in a repo. For a record object: its `$type`, the fields that its lexicon declares, and those
-- that it had when it was loaded; all fields when it is open. A plain table is copied.
local function stored_form(fields)
  local state, value = states[fields], {}
  if not state then
    for name, field in next, fields do
      value[name] = field
    end
    return value
  end
  local properties = not state.open and declared(state.collection)
  internal.copy_sent(state.collection, { fields, state.hidden }, value, properties, state.had)
  value["$type"] = state.collection
  return value
end
internal.stored_form = stored_form

-- The contract's `write` for a record object.
local function write_of(object, state)
  return {
    uri = state.uri, repo = state.repo, space = state.space, collection = state.collection, rkey = state.rkey,
    value = stored_form(object),
  }
end

-- The same for a write to a PDS, which generates the keys of new records whose key type is "tid" or "any".
local function remote_write_of(object, state, what)
  local write = write_of(object, state)
  local kind = not write.rkey and key_type(state)
  if kind and kind ~= "tid" and kind ~= "any" then
    write.rkey = key_of(kind, what)
  end
  return write
end

-- Creates the record on the caller's PDS or in its space, or replaces it there when it has a _uri. options may be
-- { validate = false }.
function methods.save(object, options)
  local state = state_of(object, "Record:save")
  local validate = validates(options, "Record:save")
  local done = save({ remote_write_of(object, state, "Record:save") }, validate)[1]
  set_address(object, state, done.uri, done.cid)
  return object
end

function methods.delete(object)
  local state = state_of(object, "Record:delete")
  if not state.uri then
    raise("Record:delete: the record is not saved")
  end
  save({ { uri = state.uri, repo = state.repo, space = state.space, collection = state.collection } }, true)
  set_address(object, state, nil, nil)
  return object
end

local function outside_spaces(state, what, instead)
  if state.space then
    raise(what .. ": records in spaces are not in the index, use " .. instead .. "()")
  end
end

-- Saves the record in the index only. options may be { validate = false }.
function methods.save_local(object, options)
  local state = state_of(object, "Record:save_local")
  outside_spaces(state, "Record:save_local", "save")
  local validate = validates(options, "Record:save_local")
  local write = write_of(object, state)
  if not write.rkey then
    write.rkey = key_of(key_type(state) or "tid", "Record:save_local")
  end
  local done = save_local(write, validate)
  set_address(object, state, done.uri, done.cid)
  return object
end

function methods.delete_local(object)
  local state = state_of(object, "Record:delete_local")
  outside_spaces(state, "Record:delete_local", "delete")
  if not state.uri then
    raise("Record:delete_local: the record is not saved")
  end
  delete_local(state.uri, state.repo)
  set_address(object, state, nil, nil)
  return object
end

function methods.set_rkey(object, rkey)
  local state = state_of(object, "Record:set_rkey")
  if state.uri then
    raise("Record:set_rkey: the record is saved already")
  end
  state.rkey = check_rkey(rkey, "Record:set_rkey")
  return object
end

function methods.generate_rkey(object)
  local state = state_of(object, "Record:generate_rkey")
  if state.uri then
    raise("Record:generate_rkey: the record is saved already")
  end
  local rkey = key_of(key_type(state), "Record:generate_rkey")
  if not rkey then
    raise("Record:generate_rkey: the key type is not known, use set_key_type() or set_rkey()")
  end
  state.rkey = rkey
  return rkey
end

function methods.set_key_type(object, kind)
  local state = state_of(object, "Record:set_key_type")
  text(kind, "Record:set_key_type")
  local literal = match(kind, "^literal:(.*)$")
  if literal then
    check_rkey(literal, "Record:set_key_type: literal")
  elseif kind ~= "tid" and kind ~= "any" and kind ~= "nsid" then
    raise("Record:set_key_type: 'tid', 'any', 'nsid' or 'literal:<key>' expected")
  end
  state.key_type = kind
  return object
end

function methods.set_repo(object, did)
  local state = state_of(object, "Record:set_repo")
  if not find(text(did, "Record:set_repo"), "^did:%l+:.") then
    raise("Record:set_repo: not a DID")
  end
  state.repo = did
  return object
end

-- The record is saved in the caller's repo in this space.
function methods.set_space(object, uri)
  local state = state_of(object, "Record:set_space")
  if state.uri then
    raise("Record:set_space: the record is saved already")
  end
  state.space = text(uri, "Record:set_space")
  return object
end

internal.entries(methods)

Record = setmetatable({ new = create }, internal.entries {
  __call = function(_, ...)
    return create(...)
  end,
  __metatable = false,
})

-- The record at a URI from the index, or from a space that the caller may read; or nil. options may be { open = true }, as for `Record`.
function Record.load(uri, options)
  local open = is_open(options, "Record.load: options")
  local found = load({ text(uri, "Record.load: uri") })[1]
  return found and loaded(found, open)
end

-- The same for an array of URIs; false for each record that is not there.
function Record.load_all(uris, options)
  if type(uris) ~= "table" then
    raise("Record.load_all: table expected, got " .. type(uris))
  end
  local open = is_open(options, "Record.load_all: options")
  local objects = array({})
  for i = 1, #uris do
    text(uris[i], "Record.load_all: uri " .. i)
    objects[i] = false
  end
  if #uris > 0 then
    local found = load(uris)
    for i = 1, #found do
      objects[found[i].position + 1] = loaded(found[i], open)
    end
  end
  return objects
end

-- Saves several records of one space, or of none, in one commit: all or none. Returns an array of { uri, cid } in their order. options may be
-- { validate = false }.
function Record.save_all(objects, options)
  if type(objects) ~= "table" or states[objects] then
    raise("Record.save_all: an array of records expected")
  end
  local validate = validates(options, "Record.save_all")
  local writes, seen = {}, {}
  if #objects > MAX_WRITES then
    raise("Record.save_all: at most " .. MAX_WRITES .. " records at once", "limit")
  end
  for i = 1, #objects do
    local object = objects[i]
    local state = state_of(object, "Record.save_all: record " .. i)
    if seen[object] then
      raise("Record.save_all: record " .. i .. " is there twice")
    end
    seen[object] = true
    writes[i] = remote_write_of(object, state, "Record.save_all: record " .. i)
  end
  local answers = array({})
  if #writes > 0 then
    local done = save(writes, validate)
    for i = 1, #writes do
      set_address(objects[i], states[objects[i]], done[i].uri, done[i].cid)
      answers[i] = { uri = done[i].uri, cid = done[i].cid }
    end
  end
  return answers
end

-- Removes a record of the caller's repo, or of the given repo, from the index only. False when it is not there.
function Record.delete_local(uri, repo)
  if repo ~= nil then
    text(repo, "Record.delete_local: repo")
  end
  return delete_local(text(uri, "Record.delete_local: uri"), repo)
end
