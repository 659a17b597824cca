-- internal.options, internal.flag, internal.boolean: check a table of options and what is in it.
local _, internal = ...
local raise, null = internal.raise, internal.null
local concat, sort = table.concat, table.sort
local byte, format, lower, sub = string.byte, string.format, string.lower, string.sub
local min, next, tostring, type = math.min, next, tostring, type

-- Longer names are cut in messages, and no similar name is looked for.
local MAX_NAME = 40

-- The number of characters to insert, remove or replace to make b of a.
local function distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local replaced = diagonal + (byte(a, i) == byte(b, j) and 0 or 1)
      diagonal = row[j]
      row[j] = min(replaced, row[j] + 1, row[j - 1] + 1)
    end
  end
  return row[#b]
end

local function unknown(name, known, what)
  local names = {}
  for option in next, known do
    names[#names + 1] = option
  end
  sort(names)
  if type(name) ~= "string" then
    local shown = type(name) == "number" and tostring(name) or "a " .. type(name)
    raise(format("%s: unknown option %s; the options are %s", what, shown, concat(names, ", ")))
  end
  local nearest, fewest
  if #name <= MAX_NAME then
    for i = 1, #names do
      local changes = distance(lower(name), lower(names[i]))
      -- A name that needs more changes is a different word.
      if changes <= 1 + #name // 4 and (not fewest or changes < fewest) then
        nearest, fewest = names[i], changes
      end
    end
  else
    name = sub(name, 1, MAX_NAME) .. "…"
  end
  if nearest then
    raise(format('%s: unknown option "%s"; did you mean "%s"?', what, name, nearest))
  end
  raise(format('%s: unknown option "%s"; the options are %s', what, name, concat(names, ", ")))
end

-- Returns `value`, which must be a table whose names are all in `known`.
function internal.options(value, known, what)
  if type(value) ~= "table" then
    raise(what .. ": table expected, got " .. type(value))
  end
  for name in next, value do
    if not known[name] then
      unknown(name, known, what)
    end
  end
  return value
end

-- The boolean option `name` of a table of options whose names are all in `known`; `default` when it is left out.
function internal.flag(options, name, known, what, default)
  if options == nil or options == null then
    return default
  end
  local flag = internal.options(options, known, what)[name]
  if flag == nil then
    return default
  end
  return internal.boolean(flag, what .. ": " .. name)
end

-- Returns `value`, which must be a boolean.
function internal.boolean(value, what)
  if type(value) ~= "boolean" then
    raise(what .. ": boolean expected, got " .. type(value))
  end
  return value
end
