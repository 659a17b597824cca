-- linked_repos.*: repos whose owners let this instance write to them.
local host, internal = ...
local grants = host.linked_repos
local raise, text, null = internal.raise, internal.text, internal.null
local setmetatable, type = setmetatable, type

-- The DID of each repo object. The object's field did is a copy: changing it has no effect.
local accounts = setmetatable({}, { __mode = "k" })

local function account(repo, what)
  local did = type(repo) == "table" and accounts[repo]
  if not did then
    raise(what .. ": a repo of linked_repos.get expected")
  end
  return did
end

local function options(value, what)
  if type(value) ~= "table" then
    raise(what .. ": table expected, got " .. type(value))
  end
  return value
end

local function record(fields, what)
  if type(fields.record) ~= "table" then
    raise(what .. ": record: table expected, got " .. type(fields.record))
  end
  return internal.stored_form(fields.record)
end

local function optional(value, what)
  if value == nil or value == null then
    return nil
  end
  return text(value, what)
end

-- The field `validate`, true when it is left out.
local function validates(fields, what)
  local validate = fields.validate
  return validate == nil or validate == null or internal.boolean(validate, what .. ": validate")
end

local methods = {}

-- Creates a record: { collection, record, rkey?, validate? }. Returns { uri, cid }.
function methods.create_record(repo, fields)
  local what = "repo:create_record"
  local did = account(repo, what)
  options(fields, what)
  local collection = text(fields.collection, what .. ": collection")
  local rkey, validate = optional(fields.rkey, what .. ": rkey"), validates(fields, what)
  return grants.create_record(did, collection, rkey, record(fields, what), validate)
end

-- Puts a record: { collection, rkey, record, swap_cid?, validate? }. Returns { uri, cid }.
function methods.put_record(repo, fields)
  local what = "repo:put_record"
  local did = account(repo, what)
  options(fields, what)
  local collection, rkey = text(fields.collection, what .. ": collection"), text(fields.rkey, what .. ": rkey")
  local swap, validate = optional(fields.swap_cid, what .. ": swap_cid"), validates(fields, what)
  return grants.put_record(did, collection, rkey, record(fields, what), swap, validate)
end

-- Deletes a record: { collection, rkey }. Returns true.
function methods.delete_record(repo, fields)
  local what = "repo:delete_record"
  local did = account(repo, what)
  options(fields, what)
  grants.delete_record(did, text(fields.collection, what .. ": collection"), text(fields.rkey, what .. ": rkey"))
  return true
end

-- Uploads bytes as a blob. Returns the PDS's response.
function methods.upload_blob(repo, bytes, mime_type)
  local what = "repo:upload_blob"
  return grants.upload_blob(account(repo, what), text(bytes, what .. ": bytes"), text(mime_type, what .. ": mime_type"))
end

-- Calls a method of the PDS: a query with { params }, a procedure with { input }. Returns the response body.
function methods.call(repo, nsid, fields)
  local what = "repo:call"
  local did = account(repo, what)
  if fields == nil or fields == null then
    fields = {}
  end
  options(fields, what)
  return grants.call(did, text(nsid, what .. ": nsid"), fields.params, fields.input)
end

local metatable = { __index = internal.entries(methods), __name = "linked_repo", __metatable = false }

linked_repos = {}

-- All grants that this script may see: an array of { id, did, handle, reason, status, scopes }.
function linked_repos.list()
  return grants.list()
end

-- The linked repo of an account, or nil. Raises an error when its owner still has to authorize it, for the first time or
-- again.
function linked_repos.get(did)
  local found = grants.get(text(did, "linked_repos.get: did"))
  if found == nil or found == null then
    return nil
  end
  local repo = setmetatable(found, metatable)
  accounts[repo] = found.did
  return repo
end
