-- happyview.record: writing records to the caller's PDS and to the index.
local host, internal = ...
local modules, raise, null, text, v3 = internal.modules, internal.raise, internal.null, internal.text, internal.v3
local save, save_local, delete_local, schema = host.repo.save, host.repo.save_local, host.repo.delete_local, host.repo.schema
local validate_record, upload = host.repo.validate, host.atproto.blob_upload_bytes
local stored_form, flag = internal.stored_form, internal.flag
local get, new = db.get, Record.new
local match, type = string.match, type

local CREATE, PUT = { rkey = true, repo = true, validate = true }, { swap_cid = true, validate = true }

-- The record with its `$type` and the defaults of its lexicon.
local function value_of(collection, fields, what)
  if type(fields) ~= "table" then
    raise(what .. ": record: table expected, got " .. type(fields))
  end
  return stored_form(new(collection, fields, { open = true }))
end

local function collection_of(uri, what)
  local collection = match(text(uri, what .. ": uri"), "^at://[^/]+/([^/]+)/[^/]+$")
  if not collection then
    raise(what .. ": uri: not the AT URI of a record")
  end
  return collection
end

-- The options, none if they are nil.
local function options_of(options, known, what)
  if options == nil or options == null then
    return {}
  end
  return internal.options(options, known, what)
end

local functions = {}

-- Creates a record in the caller's repo. Returns { uri, cid }.
function functions.create(collection, fields, options)
  local what = "happyview-record.create"
  local validate = flag(options, "validate", CREATE, what, true)
  options = options_of(options, CREATE, what)
  local value = value_of(text(collection, what .. ": collection"), fields, what)
  return save({ { collection = collection, rkey = options.rkey, repo = options.repo, value = value } }, validate)[1]
end

-- Replaces a record of the caller's repo; with swap_cid only this version of it. Returns { uri, cid }.
function functions.put(uri, fields, options)
  local what = "happyview-record.put"
  local validate = flag(options, "validate", PUT, what, true)
  local swap = options_of(options, PUT, what).swap_cid
  if swap ~= nil then
    text(swap, what .. ": swap_cid")
  end
  local collection = collection_of(uri, what)
  return save({ { uri = uri, collection = collection, swap = swap, value = value_of(collection, fields, what) } }, validate)[1]
end

function functions.delete(uri)
  save({ { uri = uri, collection = collection_of(uri, "happyview-record.delete") } }, true)
  return true
end

function functions.load(uri)
  return v3.envelope(get(uri))
end

-- Saves a record in the index only. Returns { uri }.
function functions.save_local(collection, rkey, fields, did)
  local what = "happyview-record.save_local"
  text(collection, what .. ": collection")
  text(rkey, what .. ": rkey")
  return save_local({ collection = collection, rkey = rkey, repo = did, value = value_of(collection, fields, what) }, true)
end

-- Whether the record was in the index, from which it is removed.
function functions.delete_local(uri)
  return delete_local(text(uri, "happyview-record.delete_local: uri"), match(uri, "^at://([^/]+)/"))
end

-- The part of the lexicon that records have: defs.main with key and record. nil for a collection without one.
function functions.lexicon(collection)
  local known = schema(text(collection, "happyview-record.lexicon: collection"))
  if known == null or known == nil then
    return nil
  end
  return { lexicon = 1, id = collection, defs = { main = { type = "record", key = known.key, record = known.record } } }
end

-- The record as it would be stored, if it matches its lexicon.
function functions.validate(collection, fields)
  local what = "happyview-record.validate"
  local value = value_of(text(collection, what .. ": collection"), fields, what)
  validate_record(collection, value)
  return value
end

-- Uploads bytes, a string or an array of numbers, to the caller's PDS. Returns its reference to the blob.
function functions.upload_blob(bytes, mime_type)
  local what = "happyview-record.upload_blob"
  return upload(v3.bytes(bytes, what), text(mime_type, what .. ": mime_type")).blob
end

modules["happyview.record"] = function()
  return v3.module("happyview-record", functions, { load = "db.get", upload_blob = "atproto.blob_upload" })
end
