-- log, print, warn: write to the server's log; log also writes to the event log.
local host, internal = ...
local write, raise = host.log.write, internal.raise
local concat, pack, tostring, type = table.concat, table.pack, tostring, type

function log(message)
  local kind = type(message)
  if kind ~= "string" and kind ~= "number" then
    raise("log: string expected, got " .. kind)
  end
  write("info", message)
end

local function joined(separator, ...)
  local parts = pack(...)
  for i = 1, parts.n do
    parts[i] = tostring(parts[i])
  end
  return concat(parts, separator)
end

function print(...)
  write("debug", joined("\t", ...))
end

function warn(...)
  write("warn", joined("", ...))
end
