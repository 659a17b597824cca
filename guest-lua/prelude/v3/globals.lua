-- Removes the globals of v2 before a v3 script starts: all but Lua's own and those of both contracts. `host/scripting/src/scripts/contract/globals.rs` names
-- what v3 has instead.
local _, internal = ...
local globals, own = _G, internal.own_globals
local next = next

local OF_BOTH = { require = true, parallel = true }

internal.on_v3(function()
  for name in next, globals do
    if not own[name] and not OF_BOTH[name] then
      globals[name] = nil
    end
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
