-- happyview.db, happyview.backlinks, happyview.sql: reading the index.
local _, internal = ...
local modules, raise, null, arguments, v3 = internal.modules, internal.raise, internal.null, internal.arguments, internal.v3
local query, get, count, search, backend = db.query, db.get, db.count, db.search, db.backend
local links, raw = db.backlinks, db.raw
local find, gsub, lower, upper, type = string.find, string.gsub, string.lower, string.upper, type
local tointeger = math.tointeger

-- The steps that set an option of the same name.
local function option(name)
  return {
    run = function(state, value)
      state[name] = value
    end,
  }
end

local OPERATORS = {
  ["="] = true, ["!="] = true, ["<"] = true, [">"] = true, ["<="] = true, [">="] = true, like = true, ["not like"] = true,
  ilike = true,
}

local where = {
  arguments = 3,
  run = function(state, field, op, value)
    op = type(op) == "string" and lower(op)
    if not OPERATORS[op] then
      raise("happyview-db.where: op must be one of =, !=, <, >, <=, >=, like, not like, ilike")
    end
    local filter = state.filter or { combine = "AND" }
    filter[#filter + 1] = { field = arguments.required(field, "happyview-db.where: field"), op = upper(op == "ilike" and "like" or op), value = value }
    state.filter = filter
  end,
}

local sort = {
  run = function(state, field, direction)
    state.sort, state.sortDirection = field, direction ~= null and direction or "desc"
  end,
}

-- The options of a count: an order, a page and a cursor make no difference to it.
local function counted(state)
  return count { collection = state.collection, did = state.did, filter = state.filter }
end

modules["happyview.db"] = function()
  local records = v3.chain("happyview-db", function(collection)
    return { collection = arguments.required(collection, "happyview-db.records: collection") }
  end, {
    where = where, sort = sort, limit = option "limit", cursor = option "cursor", did = option "did",
  }, {
    run = function(state)
      return v3.page(query(state))
    end,
    count = counted,
    first = function(state)
      local limit = state.limit
      state.limit = 1
      local page = query(state)
      state.limit = limit
      return v3.envelope(page.records[1])
    end,
  }, "db.query")
  return v3.module("happyview-db", {
    records = records,
    get = function(uri)
      return v3.envelope(get(uri))
    end,
    search = function(collection, field, text, limit)
      local page = search { collection = collection, field = field, query = text, limit = limit }
      return v3.page(page).records
    end,
    backend = backend,
  }, { get = "db.get", search = "db.search" })
end

modules["happyview.backlinks"] = function()
  return v3.module("happyview-backlinks", {
    to = v3.chain("happyview-backlinks", function(uri)
      return { target = arguments.required(uri, "happyview-backlinks.to: uri") }
    end, {
      collection = option "collection", did = option "did", limit = option "limit", cursor = option "cursor",
    }, {
      run = function(state)
        return v3.page(links(state))
      end,
    }, "db.backlinks"),
  })
end

-- The views that scripts may read, by the names that these tables have in v3.
local VIEWS = { records = true, record_refs = true, labels = true, lexicons = true }

-- The statement with the names of the views.
local function with_views(sql)
  if type(sql) ~= "string" then
    return sql
  end
  return (gsub(sql, "%f[%w_]happyview_([%w_]+)", function(name)
    return VIEWS[name] and name or nil
  end))
end

-- A name in a statement: of a table or a column.
local function name_of(value, what)
  if type(value) ~= "string" or not find(value, "^[%a_][%w_]*$") then
    raise(what .. ": a name of letters, digits and _ expected")
  end
  return value
end

-- The rest of a statement over a table: from FROM on, with its parameters.
local function selection(state)
  local sql, params = " FROM " .. state.table, {}
  for i = 1, #state.conditions do
    local condition = state.conditions[i]
    sql = sql .. (i == 1 and " WHERE " or " AND ") .. condition.field .. " " .. condition.op .. " $" .. i
    params[i] = condition.value
  end
  return sql, params
end

-- The operators of `where` on tables. Only PostgreSQL tells LIKE from ILIKE.
local function operator(op)
  op = type(op) == "string" and lower(op)
  if not OPERATORS[op] then
    raise("happyview-sql.where: op must be one of =, !=, <, >, <=, >=, like, not like, ilike")
  end
  return upper(op == "ilike" and backend() == "sqlite" and "like" or op)
end

modules["happyview.sql"] = function()
  return v3.module("happyview-sql", {
    raw = function(sql, params)
      return (raw(with_views(sql), params))
    end,
    -- The rows of a table: a chain with where, sort and limit, which run and count end.
    from = v3.chain("happyview-sql", function(name)
      return { table = with_views(name_of(name, "happyview-sql.from: table")), conditions = {}, limit = 20 }
    end, {
      where = {
        arguments = 3,
        run = function(state, field, op, value)
          if type(value) == "table" then
            raise("happyview-sql.where: value: a text, a number or a boolean expected")
          end
          local conditions = state.conditions
          field = name_of(field, "happyview-sql.where: field")
          conditions[#conditions + 1] = { field = field, op = operator(op), value = value }
        end,
      },
      sort = {
        run = function(state, field, direction)
          direction = direction == nil and "desc" or direction
          if direction ~= "asc" and direction ~= "desc" then
            raise("happyview-sql.sort: direction must be asc or desc")
          end
          state.order = " ORDER BY " .. name_of(field, "happyview-sql.sort: field") .. " " .. direction
        end,
      },
      limit = {
        run = function(state, value)
          local limit = tointeger(value)
          if not limit or limit < 1 then
            raise("happyview-sql.limit: positive integer expected")
          end
          state.limit = limit < 100 and limit or 100
        end,
      },
    }, {
      run = function(state)
        local rest, params = selection(state)
        return (raw("SELECT *" .. rest .. (state.order or "") .. " LIMIT " .. state.limit, params))
      end,
      count = function(state)
        local rest, params = selection(state)
        return raw("SELECT count(*) AS n" .. rest, params)[1].n
      end,
    }, "db.raw"),
  }, { raw = "db.raw" })
end
