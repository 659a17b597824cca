-- happyview.db, happyview.backlinks, happyview.sql: reading the index.
local _, internal = ...
local modules, raise, null, arguments, v3 = internal.modules, internal.raise, internal.null, internal.arguments, internal.v3
local query, get, count, search, backend = db.query, db.get, db.count, db.search, db.backend
local links, raw = db.backlinks, db.raw
local lower, upper, type = string.lower, string.upper, type

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

modules["happyview.sql"] = function()
  return v3.module("happyview-sql", {
    raw = function(sql, params)
      return (raw(sql, params))
    end,
    from = v3.missing("happyview-sql.from", "write the statement for happyview-sql.raw"),
  }, { raw = "db.raw" })
end
