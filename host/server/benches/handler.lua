-- A typical handler: routes a request, validates it, processes strings, sorts, and returns a table.
local routes = {}

local function route(method, pattern, answer)
  routes[#routes + 1] = { method = method, pattern = pattern, answer = answer }
end

local function trim(text)
  return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end

local function slug(text)
  return (trim(text):lower():gsub("[^%w]+", "-"))
end

local Form = {}
Form.__index = Form

function Form.of(fields)
  return setmetatable({ fields = fields, problems = {} }, Form)
end

function Form:required(name)
  local value = self.fields[name]
  if value == nil or value == "" then
    self.problems[#self.problems + 1] = name .. " is required"
  end
  return self
end

function Form:min(name, length)
  local value = self.fields[name]
  if type(value) == "string" and #value < length then
    self.problems[#self.problems + 1] = name .. " is too short"
  end
  return self
end

route("GET", "^/posts/(%d+)$", function(_, id)
  return { id = math.tointeger(tonumber(id)), title = "Post " .. id }
end)

route("POST", "^/posts$", function(request)
  local form = Form.of(request.body):required("title"):required("text"):min("title", 3)
  if #form.problems > 0 then
    return { errors = form.problems }
  end
  local words = 0
  for _ in request.body.text:gmatch("%S+") do
    words = words + 1
  end
  local tags = {}
  for i, tag in ipairs(request.body.tags) do
    tags[i] = slug(tag)
  end
  table.sort(tags)
  return { slug = slug(request.body.title), words = words, tags = tags, at = now() }
end)

function handle()
  local request = {
    method = "POST",
    path = params.path,
    body = { title = "  Hello, World!  ", text = ("lorem ipsum dolor sit amet "):rep(8), tags = { "B b", "A a", "C c" } },
  }
  for _, candidate in ipairs(routes) do
    if candidate.method == request.method then
      local captures = { request.path:match(candidate.pattern) }
      if #captures > 0 then
        return candidate.answer(request, table.unpack(captures))
      end
    end
  end
  return { error = "not found" }
end
