-- The globals of test files: test, before_each, expect, given, call, seen. test.d.lua describes them. The host runs a test
-- file once to list its cases, and once for each of them; `input.case` is the number of the case.
local procedure, decode, encode = xrpc.procedure, json.decode, json.encode
local error, ipairs, next, pairs, pcall, rawequal, select, tostring, type =
  error, ipairs, next, pairs, pcall, rawequal, select, tostring, type
local find, format, match, sub = string.find, string.format, string.match, string.sub
local concat = table.concat
local wanted = input

local cases, preparations = {}, {}

-- Asks the host. `level` is that of the test file's line, for errors.
local function ask(level, what, body, params)
  local answer = procedure("belvedere.test." .. what, body, params)
  local value = decode(answer.body)
  if answer.status ~= 200 then
    error(value.message, level + 1)
  end
  return value
end

-- "CHUNK:LINE: " of the line that called the function at this level above the caller.
local function place(level)
  local _, text = pcall(error, "", level + 2)
  return text
end

local function check(value, expected, what)
  if type(value) ~= expected then
    error(format("%s: %s expected, got %s", what, expected, type(value)), 3)
  end
end

function test(name, run)
  check(name, "string", "test: name")
  check(run, "function", "test: function")
  cases[#cases + 1] = { name = name, run = run, place = place(2) }
end

function before_each(run)
  check(run, "function", "before_each: function")
  preparations[#preparations + 1] = run
end

function handle()
  if not wanted.case then
    local list = toarray({})
    for number, case in ipairs(cases) do
      list[number] = { name = case.name, place = case.place }
    end
    return list
  end
  local case = cases[wanted.case]
  for _, prepare in ipairs(preparations) do
    prepare()
  end
  case.run()
end

-- Values as failures show them.
local SHOWN = 300

local function show(value)
  if type(value) == "string" then
    value = format("%q", value)
  elseif type(value) == "table" then
    local ok, text = pcall(encode, value)
    value = ok and text or tostring(value)
  else
    value = tostring(value)
  end
  if #value > SHOWN then
    value = sub(value, 1, SHOWN) .. "…"
  end
  return value
end

local function step(path, key)
  if type(key) == "string" and match(key, "^[%a_][%w_]*$") then
    return path .. "." .. key
  end
  return path .. "[" .. show(key) .. "]"
end

-- Tables that nest deeper are compared no further: they may contain themselves.
local DEPTH = 100

-- The first place where two values differ, and both values there; nil when they are equal. With `part`, fields that only
-- the first value has are no difference.
local function difference(got, expected, part, path, depth)
  if rawequal(got, expected) or got == expected then
    return nil
  end
  if type(got) ~= "table" or type(expected) ~= "table" or depth > DEPTH then
    return path, got, expected
  end
  for key, value in pairs(expected) do
    local where, a, b = difference(got[key], value, part, step(path, key), depth + 1)
    if where then
      return where, a, b
    end
  end
  if not part then
    for key, value in pairs(got) do
      if expected[key] == nil then
        return step(path, key), value, nil
      end
    end
  end
  return nil
end

local function fail_with(got, expected, part, verb)
  local where, a, b = difference(got, expected, part, "value", 0)
  if not where then
    return
  end
  local text = format("expected %s %s %s", show(got), verb, show(expected))
  if where ~= "value" then
    text = format("%s\n  %s is %s, not %s", text, where, show(a), show(b))
  end
  error(text, 3)
end

-- Whether an array has an element that includes the part.
local function has_element(array, part)
  for _, element in ipairs(array) do
    if not difference(element, part, true, "", 0) then
      return true
    end
  end
  return false
end

function expect(...)
  if select("#", ...) == 0 then
    error("expect: a value is missing", 2)
  end
  local got = ...
  local matchers = {}

  function matchers.equals(expected)
    fail_with(got, expected, false, "to equal")
  end

  function matchers.differs(other)
    if not difference(got, other, false, "", 0) then
      error(format("expected another value than %s", show(got)), 2)
    end
  end

  function matchers.includes(part)
    if type(got) == "string" and type(part) == "string" then
      if not find(got, part, 1, true) then
        error(format("expected %s to include %s", show(got), show(part)), 2)
      end
    elseif type(got) == "table" and (got[1] ~= nil or next(got) == nil) and not (type(part) == "table" and part[1] ~= nil) then
      if not has_element(got, part) then
        error(format("expected %s to have an element that includes %s", show(got), show(part)), 2)
      end
    else
      fail_with(got, part, true, "to include")
    end
  end

  function matchers.matches(pattern)
    check(pattern, "string", "matches: pattern")
    if type(got) ~= "string" or not find(got, pattern) then
      error(format("expected %s to match the pattern %s", show(got), show(pattern)), 2)
    end
  end

  function matchers.fails(text)
    check(got, "function", "fails: expected value")
    local ok, failure = pcall(got)
    if ok then
      error("expected the function to raise an error", 2)
    end
    failure = type(failure) == "table" and getmetatable(failure) == nil and show(failure) or tostring(failure)
    if text and not find(failure, text, 1, true) then
      error(format("expected an error that includes %s, got %s", show(text), show(failure)), 2)
    end
  end

  return matchers
end

given = {}

function given.account(account)
  check(account, "table", "given.account")
  return (ask(2, "account", account).did)
end

function given.record(uri, record)
  return (ask(2, "record", { uri = uri, record = record }).uri)
end

function given.label(label)
  check(label, "table", "given.label")
  ask(2, "label", label)
end

function given.variable(name, value)
  ask(2, "variable", { name = name, value = value })
end

function given.setting(name, value)
  ask(2, "setting", { name = name, value = value })
end

function given.target(method, collection)
  ask(2, "target", { method = method, collection = collection })
end

function given.time(time)
  ask(2, "time", { time = time })
end

function given.random(seed)
  ask(2, "random", { seed = seed })
end

-- "URL" or "METHOD URL".
function given.http(request, answer)
  check(request, "string", "given.http: request")
  check(answer, "table", "given.http: answer")
  local body = answer.body
  if type(body) == "table" then
    body = encode(body)
  end
  ask(2, "http", { request = request, status = answer.status, headers = answer.headers, body = body, fails = answer.fails })
end

function given.pds(method, answer)
  check(method, "string", "given.pds: method")
  check(answer, "table", "given.pds: answer")
  ask(2, "pds", { method = method, status = answer.status, body = answer.body })
end

-- A space that this server hosts, with members { DID = right }.
function given.space(space, options)
  check(space, "string", "given.space: space")
  options = options or {}
  check(options, "table", "given.space: options")
  return (ask(2, "space", { space = space, creator = options.creator, members = options.members, public = options.public }).space)
end

-- The answer of a plugin's function, to all calls or to those with these args.
function given.plugin(plugin, name, answer)
  check(plugin, "string", "given.plugin: plugin")
  check(name, "string", "given.plugin: function")
  check(answer, "table", "given.plugin: answer")
  local args = answer.args and toarray(answer.args)
  ask(2, "plugin", { plugin = plugin, ["function"] = name, args = args, result = answer.result, fails = answer.fails })
end

call = {}

function call.query(nsid, params, options)
  return (ask(2, "query", { nsid = nsid, options = options }, params))
end

function call.procedure(nsid, body, options)
  return (ask(2, "procedure", { nsid = nsid, input = body, options = options }, options and options.params))
end

function call.record(action, uri, record)
  return (ask(2, "event", { action = action, uri = uri, record = record }))
end

function call.change(nsid, event, params)
  check(event, "table", "call.change")
  local asked = { nsid = nsid, action = event.action, uri = event.uri, record = event.record, seq = event.seq }
  return (ask(2, "change", asked, params))
end

function call.label(label)
  check(label, "table", "call.label")
  return (ask(2, "labelEvent", label))
end

function call.job(name, body, options)
  return (ask(2, "job", { name = name, input = body, options = options }))
end

function call.schedule(name)
  return (ask(2, "schedule", { name = name }))
end

function call.jobs()
  return (ask(2, "jobs").jobs)
end

seen = {}

for _, list in ipairs({ "writes", "requests", "logs", "jobs", "plugins" }) do
  seen[list] = function()
    return (ask(2, "seen", { list = list }).list)
  end
end

function seen.space(space)
  check(space, "string", "seen.space: space")
  return (ask(2, "seen", { list = "space", space = space }).list)
end
