-- require: the values of libraries and of the modules of v3.
local host, internal = ...
local load = host.libraries.load
local chunk, raise, text = internal.chunk, internal.raise, internal.text

-- The value of a library that has not returned.
local RUNNING = {}
local values = {}

-- The modules by name: functions that make them. They are made when they are required, so that other runs have no cost.
local modules = {}
internal.modules = modules

-- The value that a library returns. It runs when it is required for the first time in a run.
function require(name)
  local value = values[text(name, "require: name")]
  if value == nil and modules[name] then
    value = modules[name]()
    values[name] = value
  elseif value == nil then
    local main = chunk(load(name))
    values[name] = RUNNING
    value = main(name)
    if value == nil then
      value = true
    end
    values[name] = value
  elseif value == RUNNING then
    raise("require: the library " .. name .. " has not returned: it requires itself, or has raised an error")
  end
  return value
end
