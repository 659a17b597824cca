-- Removes the globals of v2 before a v3 script starts. `host/scripting/src/scripts/contract/globals.rs` names what v3 has instead.
local _, internal = ...
local globals = _G

local REMOVED = {
  "params", "caller_did", "delegate_did", "method", "collection", "space", "env", "job", "event", "input", "action", "uri", "did",
  "rkey", "record", "src", "val", "neg", "cts", "exp", "log", "now", "TID", "json", "toarray", "db", "Record", "xrpc", "http", "atproto",
  "jobs", "linked_repos", "labels", "moderation", "plugin", "view",
}

internal.on_v3(function()
  for i = 1, #REMOVED do
    globals[REMOVED[i]] = nil
  end
end)

-- Belvedere's own, which are the same in both contracts.
local modules = internal.modules
for _, name in next, { "labels", "moderation", "plugin", "view" } do
  local value = globals[name]
  modules["belvedere." .. name] = function()
    return value
  end
end
