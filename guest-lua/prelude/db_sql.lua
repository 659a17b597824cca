-- db.raw, db.page: SQL.
local host, internal = ...
local raw, select_page = host.db.raw, host.db.select_page
local array, raise, null = internal.array, internal.raise, internal.null
local type = type

db = db or {}

-- The parameters as the host takes them.
local function params_of(params, what)
  local given = array({})
  if params ~= nil and params ~= null then
    if type(params) ~= "table" then
      raise(what .. ": params: table expected, got " .. type(params))
    end
    for i = 1, #params do
      local value = params[i]
      if value == nil then
        raise(what .. ": params: a nil at " .. i .. " (use json.null)")
      end
      given[i] = value
    end
  end
  return given
end

-- Runs one SQL statement with params for $1, $2, … Returns the rows, and how many were changed.
function db.raw(sql, params)
  local answer = raw(internal.arguments.required(sql, "db.raw: sql"), params_of(params, "db.raw"))
  return answer.rows, answer.changed
end

local PAGE = { order = true, limit = true, cursor = true }

-- A page of the rows of a SELECT: takes the statement, its params, and { order, limit, cursor }, returns { rows, cursor }.
function db.page(sql, params, options)
  local arguments = internal.arguments
  sql = arguments.required(sql, "db.page: sql")
  internal.options(options, PAGE, "db.page")
  local order = options.order
  if type(order) == "string" then
    order = { order }
  elseif type(order) ~= "table" then
    raise("db.page: order: table expected, got " .. type(order))
  end
  return select_page(sql, params_of(params, "db.page"), {
    order = arguments.sort_keys(order, "db.page: order"),
    limit = arguments.whole(options.limit, "db.page: limit"),
    cursor = arguments.text(options.cursor, "db.page: cursor"),
  })
end
