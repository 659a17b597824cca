-- happyview.xrpc, .http, .atproto, .jobs, .linked_repos, .spaces, .blobs.
local _, internal = ...
local modules, raise, text, v3 = internal.modules, internal.raise, internal.text, internal.v3
local xrpc, http, atproto, jobs, linked_repos = xrpc, http, atproto, jobs, linked_repos
local procedure, decode = xrpc.procedure, internal.decode
local spaces, entries = atproto.spaces, internal.entries
local next, pcall, setmetatable, type = next, pcall, setmetatable, type

-- The body of an answer; an answer with another status than 200 is an error.
local function body_of(answer, what)
  local ok, body = pcall(decode, answer.body)
  if not ok then
    body = answer.body
  end
  if answer.status ~= 200 then
    local detail = type(body) == "table" and (body.message or body.error)
    raise(what .. ": status " .. answer.status .. (type(detail) == "string" and ": " .. detail or ""), "xrpc-error")
  end
  return body
end

modules["happyview.xrpc"] = function()
  return v3.module("happyview-xrpc", {
    query = function(nsid, params)
      return body_of(xrpc.query(nsid, params), "xrpc.query")
    end,
    procedure = function(nsid, input, params)
      return body_of(procedure(nsid, input, params), "xrpc.procedure")
    end,
  }, { query = "xrpc.query", procedure = "xrpc.procedure" })
end

modules["happyview.http"] = function()
  local functions, olds = {}, {}
  for _, name in next, { "get", "post", "put", "patch", "delete", "head" } do
    functions[name], olds[name] = http[name], "http." .. name
  end
  return v3.module("happyview-http", functions, olds)
end

modules["happyview.atproto"] = function()
  local functions, olds = {}, {}
  for _, name in next, { "resolve_service_endpoint", "get_labels", "get_labels_batch", "sign", "verify_signature" } do
    -- Without a key of the server, `sign` and `verify_signature` are removed before the script starts.
    functions[name] = atproto[name] or v3.missing("happyview-atproto." .. name, "it has no key for signatures")
    olds[name] = "atproto." .. name
  end
  functions.blob_download = v3.missing("happyview-atproto.blob_download", "scripts have no bytes of blobs here; link to the blob instead")
  return v3.module("happyview-atproto", functions, olds)
end

modules["happyview.jobs"] = function()
  local elsewhere = "operators see jobs in the dashboard"
  return v3.module("happyview-jobs", {
    create = jobs.create,
    get = v3.missing("happyview-jobs.get", elsewhere),
    get_any = v3.missing("happyview-jobs.get_any", elsewhere),
    list_any = v3.missing("happyview-jobs.list_any", elsewhere),
  }, { create = "jobs.create" })
end

modules["happyview.linked_repos"] = function()
  local subjects = setmetatable({}, { __mode = "k" })
  local methods = {}
  for _, name in next, { "create_record", "put_record", "delete_record", "upload_blob", "call" } do
    methods[name] = v3.adapt(function(object, ...)
      local did = subjects[object]
      local repo = did and linked_repos.get(did)
      if not repo then
        raise("repo:" .. name .. ": no linked repo of this account", "not-linked")
      end
      return repo[name](repo, ...)
    end, "repo:" .. name, "happyview-linked-repos." .. name)
  end
  local metatable = { __index = entries(methods), __name = "linked_repo", __metatable = false }
  return v3.module("happyview-linked-repos", {
    list = linked_repos.list,
    get = function(did)
      local object = setmetatable({}, metatable)
      subjects[object] = text(did, "happyview-linked-repos.get: did")
      return object
    end,
  })
end

-- The methods of a space that change it, which scripts can't here.
local SPACE_WRITES = {
  "write_record", "put_record", "delete_record", "add_member", "set_member", "remove_member", "update", "delete", "create_invite",
}

modules["happyview.spaces"] = function()
  local library, elsewhere = "happyview-spaces", "call the methods of spaces, or save a record with a space"
  local subjects, methods = setmetatable({}, { __mode = "k" }), {}
  local function subject(object, name)
    local uri = subjects[object]
    if not uri then
      raise(library .. "." .. name .. ": a space of happyview-spaces.get expected")
    end
    return uri
  end
  local function read(name, old, run)
    methods[name] = v3.adapt(function(object, ...)
      return run(subject(object, name), ...)
    end, "atproto.spaces." .. old, library .. "." .. name)
  end
  read("members", "list_members", function(uri, cursor)
    return (spaces.list_members(uri, cursor))
  end)
  read("is_member", "is_member", spaces.is_member)
  read("access", "get_access", spaces.get_access)
  read("records", "query", function(uri, options)
    options = options or {}
    return v3.page(spaces.query { space_uri = uri, collection = options.collection, limit = options.limit, cursor = options.cursor })
  end)
  for _, name in next, SPACE_WRITES do
    methods[name] = v3.missing(library .. "." .. name, elsewhere)
  end
  local metatable = { __index = entries(methods), __name = "space", __metatable = false }
  local functions = {
    get = function(uri)
      local object = setmetatable({}, metatable)
      subjects[object] = text(uri, library .. ".get: uri")
      return object
    end,
    query = function(options)
      if type(options) ~= "table" then
        raise(library .. ".query: table expected, got " .. type(options))
      end
      return v3.page(spaces.query {
        space_uri = options.uri, collection = options.collection, limit = options.limit, cursor = options.cursor,
      })
    end,
  }
  for _, name in next, { "create", "accept_invite", "info" } do
    functions[name] = v3.missing(library .. "." .. name, elsewhere)
  end
  return v3.module(library, functions, { query = "atproto.spaces.query" })
end

modules["happyview.blobs"] = function()
  local functions = {}
  for _, name in next, { "put", "get", "stat", "exists" } do
    functions[name] = v3.missing("happyview-blobs." .. name, "it stores no blobs")
  end
  return v3.module("happyview-blobs", functions)
end
