-- internal.logging, internal.time, internal.tids, internal.json.
local host, internal = ...
local modules, entries, raise, null = internal.modules, internal.entries, internal.raise, internal.null
local write, encode, decode = host.log.write, internal.encode, internal.decode
local micros, parse, from_micros = internal.time.micros, internal.time.parse, internal.time.from_micros
local tid, to_micros, to_array = host.clock.tid, TID.toUnixMicroseconds, toarray
local date, format = os.date, string.format
local tointeger, tonumber, type = math.tointeger, tonumber, type
local error, pcall = error, pcall

-- The last millisecond of the year 9999.
local LAST = 253402300799999

modules["internal.logging"] = function()
  local function writer(level, prefix)
    return function(message, fields)
      local kind = type(message)
      if kind ~= "string" and kind ~= "number" then
        raise("internal.logging: message: string expected, got " .. kind)
      end
      if fields ~= nil and fields ~= null then
        message = message .. " " .. encode(fields)
      end
      write(level, prefix .. message)
    end
  end
  return entries { debug = writer("debug", ""), info = writer("info", ""), warn = writer("warn", ""), error = writer("warn", "error: ") }
end

-- Milliseconds since 1970.
local function milliseconds(value, what)
  local at = tointeger(tonumber(value))
  if not at and type(value) == "number" and value == value and value >= 0 and value <= LAST then
    at = value // 1 | 0
  end
  if not at or at < 0 or at > LAST then
    raise(what .. ": milliseconds since 1970 expected")
  end
  return at
end

modules["internal.time"] = function()
  return entries {
    now = function()
      return micros() // 1000
    end,
    to_iso8601 = function(ms)
      local at = milliseconds(ms, "internal.time.to_iso8601")
      return date("!%Y-%m-%dT%H:%M:%S", at // 1000) .. format(".%03dZ", at % 1000)
    end,
    -- nil for a text that is no time.
    from_iso8601 = function(text)
      local ok, at = pcall(parse, text)
      if ok then
        return at // 1000
      elseif type(text) ~= "string" then
        error(at, 0)
      end
    end,
  }
end

modules["internal.tids"] = function()
  return entries {
    create = function()
      return tid()
    end,
    to_tid = function(ms)
      return from_micros(milliseconds(ms, "internal.tids.to_tid") * 1000)
    end,
    from_tid = function(text)
      return to_micros(text) // 1000
    end,
  }
end

modules["internal.json"] = function()
  return { encode = encode, decode = decode, to_array = to_array, null = null }
end
