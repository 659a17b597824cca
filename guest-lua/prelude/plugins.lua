-- plugin.NAME.fn(...): functions of the installed plugins.
local host, internal = ...
local call, raise, array, null, entries = host.plugins.call, internal.raise, internal.array, internal.null, internal.entries
local format, pack, rawset, setmetatable, type = string.format, table.pack, rawset, setmetatable, type

local function check_name(name, of)
  if type(name) ~= "string" then
    raise(format("plugin: the name of a %s must be a string, got %s", of, type(name)))
  end
end

-- The function of a plugin. The host finds it at each call, so a script can be saved before its plugin is installed.
local function function_of(id, name)
  local made = entries({
    function(...)
      local arguments = pack(...)
      for i = 1, arguments.n do
        if arguments[i] == nil then
          arguments[i] = null
        end
      end
      arguments.n = nil
      return call(id, name, array(arguments))
    end,
  })
  return made[1]
end

local function functions_of(id)
  return setmetatable({}, {
    __name = "plugin",
    __metatable = false,
    __index = function(functions, name)
      check_name(name, "function")
      local found = function_of(id, name)
      rawset(functions, name, found)
      return found
    end,
  })
end

-- Plugins by id; in an id, _ stands for -.
plugin = setmetatable({}, {
  __name = "plugins",
  __metatable = false,
  __index = function(plugins, id)
    check_name(id, "plugin")
    local functions = functions_of(id)
    rawset(plugins, id, functions)
    return functions
  end,
})
