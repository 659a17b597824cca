-- now and TID.
local host, internal = ...
local micros, tid = host.clock.now, host.clock.tid
local raise = internal.raise
local date, time = os.date, os.time
local byte, char, find, format, match, sub = string.byte, string.char, string.find, string.format, string.match, string.sub
local concat, tointeger, tonumber, type, setmetatable = table.concat, math.tointeger, tonumber, type, setmetatable

local SECOND = 1000000
-- The last microsecond of the year 9999. The earliest TID is at 1970, so no lower bound is needed.
local LAST = 253402300799999999

local function timestamp(at)
  return date("!%Y-%m-%dT%H:%M:%S", at // SECOND) .. format(".%06dZ", at % SECOND)
end

-- The current time, RFC 3339 in UTC with microseconds.
function now()
  return timestamp(micros())
end

-- A TID is a 64-bit number written as 13 characters that sort like the number, which is microseconds << 10 | clock id.
local ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
local VALUES = {}
for i = 1, 32 do
  VALUES[byte(ALPHABET, i)] = i - 1
end

local function to_number(text)
  if type(text) ~= "string" or #text ~= 13 or not find(text, "^[234567a-j]") then
    raise("invalid TID")
  end
  local number = 0
  for i = 1, 13 do
    local value = VALUES[byte(text, i)]
    if not value then
      raise("invalid TID")
    end
    number = number << 5 | value
  end
  return number
end

local function from_number(given)
  local number = tointeger(tonumber(given))
  if not number or number < 0 then
    raise("invalid TID number")
  end
  local letters = {}
  for i = 13, 1, -1 do
    local value = number & 31
    letters[i] = char(byte(ALPHABET, value + 1))
    number = number >> 5
  end
  return concat(letters)
end

local function from_micros(given)
  local at = tointeger(tonumber(given))
  if not at or at < 0 or at >= 1 << 53 then
    raise("invalid TID time")
  end
  return from_number(at << 10)
end

-- Microseconds of an RFC 3339 time with any offset and any fraction; digits beyond microseconds are dropped.
local function parse(text)
  if type(text) ~= "string" then
    raise("invalid ISO 8601")
  end
  local year, month, day, hour, minute, second, rest =
    match(text, "^(%d%d%d%d)-(%d%d)-(%d%d)[Tt ](%d%d):(%d%d):(%d%d)(.*)$")
  if not year then
    raise("invalid ISO 8601")
  end
  local fraction, zone = match(rest, "^%.(%d+)(.*)$")
  zone = zone or rest
  local sign, zone_hour, zone_minute = match(zone, "^([+-])(%d%d):(%d%d)$")
  if not sign and zone ~= "Z" and zone ~= "z" then
    raise("invalid ISO 8601")
  end
  local parts = {
    year = tonumber(year), month = tonumber(month), day = tonumber(day),
    hour = tonumber(hour), min = tonumber(minute), sec = tonumber(second),
  }
  local at = time(parts)
  -- os.time normalises fields that are out of range, so only a valid date formats to the same text again.
  if date("!%Y-%m-%d %H:%M:%S", at) ~= year .. "-" .. month .. "-" .. day .. " " .. hour .. ":" .. minute .. ":" .. second then
    raise("invalid ISO 8601")
  end
  if sign then
    local offset = tonumber(zone_hour) * 3600 + tonumber(zone_minute) * 60
    at = sign == "+" and at - offset or at + offset
  end
  return at * SECOND + tonumber(sub((fraction or "") .. "000000", 1, 6))
end

-- For the modules of v3.
internal.time = { micros = micros, parse = parse, from_micros = from_micros }

TID = setmetatable({
  toNumber = to_number,
  fromNumber = from_number,
  toUnixMicroseconds = function(text)
    return to_number(text) >> 10
  end,
  fromUnixMicroseconds = from_micros,
  toISO8601 = function(text)
    local at = to_number(text) >> 10
    if at > LAST then
      raise("invalid TID")
    end
    return timestamp(at)
  end,
  fromISO8601 = function(text)
    return from_micros(parse(text))
  end,
}, internal.entries {
  __call = function()
    return tid()
  end,
  __metatable = false,
})
