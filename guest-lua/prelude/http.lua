-- http.get, post, put, patch, delete, head, send_all: requests to other servers.
local host, internal = ...
local send, raise, array, null = host.http.send, internal.raise, internal.array, internal.null
local lower, next, type = string.lower, next, type

local METHODS = { get = true, post = true, put = true, patch = true, delete = true, head = true }

local function text(value, what)
  local kind = type(value)
  if kind ~= "string" and kind ~= "number" then
    raise(what .. ": string expected, got " .. kind)
  end
  return value
end

-- Converts a table of names to values into the contract's array of headers.
local function header_list(headers, what)
  local list = {}
  if headers == nil or headers == null then
    return list
  end
  if type(headers) ~= "table" then
    raise(what .. ": headers: table expected, got " .. type(headers))
  end
  for name, value in next, headers do
    if type(name) ~= "string" then
      raise(what .. ": headers: a name must be a string")
    end
    list[#list + 1] = { name = name, value = text(value, what .. ": header " .. name) }
  end
  return list
end

local function request(method, url, options, what)
  if options == nil or options == null then
    options = {}
  elseif type(options) ~= "table" then
    raise(what .. ": table expected, got " .. type(options))
  end
  local body = options.body
  if body == null then
    body = nil
  end
  if body ~= nil then
    text(body, what .. ": body")
    if method == "get" or method == "head" then
      raise(what .. ": a " .. method .. " has no body")
    end
  end
  if type(url) ~= "string" then
    raise(what .. ": url: string expected, got " .. type(url))
  end
  return { method = method, url = url, headers = header_list(options.headers, what), body = body }
end

-- The response as scripts see it. The host's header names are lower case. Values of repeated headers are joined, except
-- those of set-cookie, which contain commas (RFC 9110 section 5.3): `headers` has the last, `set_cookies` all.
local function answer(response)
  local headers, set_cookies = {}, array({})
  local list = response.headers
  for i = 1, #list do
    local name, value = list[i].name, list[i].value
    if name == "set-cookie" then
      set_cookies[#set_cookies + 1] = value
    elseif headers[name] then
      value = headers[name] .. ", " .. value
    end
    headers[name] = value
  end
  return { status = response.status, body = response.body, headers = headers, set_cookies = set_cookies }
end

http = {}

local function define(method)
  local what = "http." .. method
  http[method] = function(url, options)
    local outcome = send({ request(method, url, options, what) })[1]
    if outcome.fault then
      raise(what .. ": " .. outcome.fault.message, outcome.fault.code)
    end
    return answer(outcome.response)
  end
end

for method in next, METHODS do
  define(method)
end

-- Sends several requests concurrently: takes an array of { method, url, headers, body }, returns an array of responses
-- in the same order. A request that failed gives { error = { code, message } }.
function http.send_all(requests)
  if type(requests) ~= "table" then
    raise("http.send_all: table expected, got " .. type(requests))
  end
  local list = {}
  for i = 1, #requests do
    local one = requests[i]
    local what = "http.send_all: request " .. i
    if type(one) ~= "table" then
      raise(what .. ": table expected, got " .. type(one))
    end
    local method = one.method
    if method == nil or method == null then
      method = "get"
    end
    method = type(method) == "string" and lower(method)
    if not METHODS[method] then
      raise(what .. ": method must be one of get, post, put, patch, delete, head")
    end
    list[i] = request(method, one.url, one, what)
  end
  local outcomes = send(list)
  local answers = array({})
  for i = 1, #outcomes do
    local outcome = outcomes[i]
    if outcome.fault then
      answers[i] = { error = { code = outcome.fault.code, message = outcome.fault.message } }
    else
      answers[i] = answer(outcome.response)
    end
  end
  return answers
end
