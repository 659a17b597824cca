-- What the modules of v3 are made with: functions of v2 under other names, records in envelopes, and chains.
local _, internal = ...
local entries, raise, null = internal.entries, internal.raise, internal.null
local find, gsub, match, sub, upper = string.find, string.gsub, string.match, string.sub, string.upper
local error, next, pcall, setmetatable, type = error, next, pcall, setmetatable, type
local pack, unpack, concat = table.pack, table.unpack, table.concat
local char, tointeger = string.char, math.tointeger

local v3 = {}
internal.v3 = v3

-- The codes of errors that have another name in v3.
local CODES = { upstream = "PDS_ERROR" }

-- The function with errors as v3 has them: `new` instead of `old` in the message, and codes in capital letters.
function v3.adapt(run, old, new)
  return function(...)
    local results = pack(pcall(run, ...))
    if results[1] then
      return unpack(results, 2, results.n)
    end
    local failure = results[2]
    if type(failure) == "table" and type(failure.code) == "string" then
      failure.code = CODES[failure.code] or upper((gsub(failure.code, "-", "_")))
      if find(failure.message, ": invalid record", 1, true) then
        failure.code = "INVALID_RECORD"
      end
      -- After the position, if there is one: a trigger's name may contain `old`.
      local message = failure.message
      local _, position = find(message, ": " .. old, 1, true)
      local last = position or sub(message, 1, #old) == old and #old
      if last then
        failure.message = sub(message, 1, last - #old) .. new .. sub(message, last + 1)
      end
    end
    error(failure, 0)
  end
end

-- A module: functions by name, whose errors begin with the library's name. `olds` has the names in errors of v2, where they differ.
function v3.module(library, functions, olds)
  for name, run in next, functions do
    functions[name] = v3.adapt(run, olds and olds[name] or library .. "." .. name, library .. "." .. name)
  end
  return entries(functions)
end

-- The bytes in a string, or in an array of numbers.
function v3.bytes(value, what)
  if type(value) ~= "table" then
    return internal.text(value, what .. ": bytes")
  end
  local parts = {}
  for i = 1, #value do
    local byte = tointeger(value[i])
    if not byte or byte < 0 or byte > 255 then
      raise(what .. ": bytes: a string, or an array of numbers from 0 to 255 expected")
    end
    parts[i] = char(byte)
  end
  return concat(parts)
end

-- A function that is not there, with the reason.
function v3.missing(what, reason)
  return function()
    raise(what .. " is not available on this server: " .. reason, "forbidden")
  end
end

-- The envelope of a row of the index; nil for nil.
function v3.envelope(row)
  if row == nil then
    return nil
  end
  local uri = row.uri
  local did, collection, rkey = match(uri, "^at://([^/]*)/([^/]*)/([^/]*)$")
  local cid, indexed_at = row._cid, row._indexed_at
  row.uri = nil
  return { uri = uri, did = did, collection = collection, rkey = rkey, cid = cid, indexed_at = indexed_at, record = row }
end

-- The page with its rows in envelopes.
function v3.page(page)
  local rows = page.records
  for i = 1, #rows do
    rows[i] = v3.envelope(rows[i])
  end
  return page
end

-- A constructor of chains. `lazy` steps change the chain's state and are skipped when their value, which is the last argument, is nil;
-- `immediate` calls get the state and return a result. `old` is the name in errors of v2.
function v3.chain(library, start, lazy, immediate, old)
  local states, methods = setmetatable({}, { __mode = "k" }), {}
  local function state_of(chain, name)
    local state = type(chain) == "table" and states[chain]
    if not state then
      raise(library .. ": call " .. name .. " with a colon")
    end
    return state
  end
  for name, step in next, lazy do
    methods[name] = v3.adapt(function(chain, ...)
      local state, given = state_of(chain, name), pack(...)
      local value = given[step.arguments or 1]
      if value ~= nil and value ~= null then
        step.run(state, ...)
      end
      return chain
    end, old, library)
  end
  for name, call in next, immediate do
    methods[name] = v3.adapt(function(chain)
      return call(state_of(chain, name))
    end, old, library .. "." .. name)
  end
  local metatable = { __index = entries(methods), __name = "chain", __metatable = false }
  return function(subject)
    local chain = setmetatable({}, metatable)
    states[chain] = start(subject)
    return chain
  end
end
