-- atproto.*: accounts, labels, blobs, signatures over records, and spaces.
local host, internal = ...
local endpoint, labels = host.atproto.resolve_service_endpoint, host.atproto.labels
local resolve_handle, handles = host.atproto.resolve_handle, host.atproto.handles
local download, upload = host.atproto.blob_download, host.atproto.blob_upload
local sign, verify = host.atproto.sign, host.atproto.verify_signature
local service_token = host.atproto.service_token
local access, list_members = host.spaces.access, host.spaces.list_members
local raise, text, null, on_start = internal.raise, internal.text, internal.null, internal.on_start
local setmetatable, type = setmetatable, type

local function record_of(value, what)
  if type(value) ~= "table" then
    raise(what .. ": table expected, got " .. type(value))
  end
  return internal.stored_form(value)
end

-- The host's data of each blob, by the blob object that the script has. The object itself is an empty table.
local blobs = setmetatable({}, { __mode = "k" })

local function blob_of(object, what)
  local blob = type(object) == "table" and blobs[object]
  if not blob then
    raise(what .. ": a blob of atproto.blob_download expected")
  end
  return blob
end

local methods = {}

-- The size in bytes.
function methods.size(object)
  return blob_of(object, "blob:size").size
end

function methods.mime_type(object)
  return blob_of(object, "blob:mime_type").mime_type
end

local blob_metatable = { __index = internal.entries(methods), __name = "blob", __metatable = false }

function blob_metatable.__newindex()
  raise("a blob has no fields")
end

atproto = {}

-- The URL of an account's PDS, or nil.
function atproto.resolve_service_endpoint(did)
  return endpoint(text(did, "atproto.resolve_service_endpoint: did"))
end

-- The DID of the account that a handle belongs to, or nil.
function atproto.resolve_handle(handle)
  return resolve_handle(text(handle, "atproto.resolve_handle: handle"))
end

-- The handles of many accounts: a table from DID to handle, and an array of the DIDs that could not be looked up.
function atproto.handles(dids)
  if type(dids) ~= "table" then
    raise("atproto.handles: table expected, got " .. type(dids))
  end
  local answer = handles(dids)
  if #answer.failed == 0 then
    return answer.handles
  end
  return answer.handles, answer.failed
end

-- The labels in force on a record or an account: an array of { src, uri, val, cts }.
function atproto.get_labels(uri)
  return labels({ text(uri, "atproto.get_labels: uri") })[uri]
end

-- The labels of many records or accounts: a table from URI to array.
function atproto.get_labels_batch(uris)
  if type(uris) ~= "table" then
    raise("atproto.get_labels_batch: table expected, got " .. type(uris))
  end
  return labels(uris)
end

-- Downloads a blob of an account: { handle, mimeType, size }. The bytes stay on the host.
function atproto.blob_download(did, cid)
  local blob = download(text(did, "atproto.blob_download: did"), text(cid, "atproto.blob_download: cid"))
  local object = setmetatable({}, blob_metatable)
  blobs[object] = blob
  return { handle = object, mimeType = blob.mime_type, size = blob.size }
end

-- Uploads a downloaded blob to the caller's PDS. Returns the PDS's response.
function atproto.blob_upload(handle, content_type)
  local blob = blob_of(handle, "atproto.blob_upload")
  if content_type == nil then
    content_type = blob.mime_type
  end
  return upload(blob.handle, text(content_type, "atproto.blob_upload: content_type"))
end

-- Signs a record in the caller's repo with this server's key.
function atproto.sign(record)
  return sign(record_of(record, "atproto.sign"))
end

-- Whether a signature was made by this server, for this record in this repo.
function atproto.verify_signature(record, signature, repo_did)
  if type(signature) ~= "table" or type(repo_did) ~= "string" then
    return false
  end
  return verify(record_of(record, "atproto.verify_signature"), signature, repo_did)
end

-- A token with which this server calls one method of another server, under its own DID.
function atproto.service_token(audience, method)
  return service_token(
    text(audience, "atproto.service_token: audience"),
    text(method, "atproto.service_token: method")
  )
end

-- atproto.spaces -----------------------------------------------------------------------------------------------------

local spaces = {}

-- Whether an account is a member of a space that the caller sees.
function spaces.is_member(space, did)
  return access(text(space, "atproto.spaces.is_member: space"), text(did, "atproto.spaces.is_member: did")) ~= nil
end

-- The rights of a member: "read", "read_self" or "write". nil without any.
function spaces.get_access(space, did)
  local word = access(text(space, "atproto.spaces.get_access: space"), text(did, "atproto.spaces.get_access: did"))
  if word ~= "none" then
    return word
  end
end

-- An array of { did, access }, and a cursor when there are more.
function spaces.list_members(space, cursor)
  if cursor == null then
    cursor = nil
  elseif cursor ~= nil then
    text(cursor, "atproto.spaces.list_members: cursor")
  end
  local page = list_members(text(space, "atproto.spaces.list_members: space"), cursor)
  for i = 1, #page.members do
    local member = page.members[i]
    if member.access == "none" then
      member.access = nil
    end
  end
  return page.members, page.cursor
end

local QUERY = { space_uri = true, collection = true, did = true, limit = true, cursor = true, sortDirection = true }

-- A page of the records in a space, of one collection or of all: { records, cursor }.
function spaces.query(options)
  internal.options(options, QUERY, "atproto.spaces.query")
  return internal.query_space(options.space_uri, options, 50, "atproto.spaces.query")
end

atproto.spaces = internal.entries(spaces)

on_start(function(context)
  if not context.session then
    atproto.blob_upload = nil
  end
  if not context.signing then
    atproto.sign = nil
    atproto.verify_signature = nil
  end
end)
