/* Opens the libraries of scripts: Lua's own, without the functions that access files or load code, and the prelude. */

static int prelude_encode(lua_State *L) {
  luaL_checkany(L, 1);
  json_scratch.len = 0;
  json_encode(L, 1, &json_scratch, "json.encode: value");
  lua_pushlstring(L, json_scratch.data, json_scratch.len);
  return 1;
}

/* A table is returned as it is, so that scripts can decode JSON columns of db.raw, which are tables already. */
static int prelude_decode(lua_State *L) {
  if (lua_istable(L, 1)) {
    lua_settop(L, 1);
    return 1;
  }
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  json_decode(L, text, n, 0, "json.decode");
  return 1;
}

/* text(value, what): the value, which must be a string. */
static int prelude_text(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING) wrong_type(L, 1, luaL_checkstring(L, 2), "string");
  lua_settop(L, 1);
  return 1;
}

/* chunk(bytecode): the function that it is. For bytecode of the host only: any other can break the VM. */
static int prelude_chunk(lua_State *L) {
  size_t n;
  const char *bytecode = luaL_checklstring(L, 1, &n);
  if (luaL_loadbufferx(L, bytecode, n, "=library", "b") != LUA_OK) return lua_error(L);
  return 1;
}

static int has_names(Table *t) {
  for (unsigned i = 0, n = sizenode(t); i < n; i++) {
    Node *node = gnode(t, i);
    if (!isempty(gval(node)) && !keyisinteger(node)) return 1;
  }
  return 0;
}

/* Marks a table as an array and returns it. A table that can't be marked, because it has names or a metatable of its own,
   gives a new array with its sequence part. */
static int prelude_array(lua_State *L) {
  Table *t = row_opened(L, hvalue(index2value(L, 1)));
  if (t->metatable == json_array_mark || (!t->metatable && !has_names(t))) {
    lua_settop(L, 1);
    mark_array(L);
    return 1;
  }
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawseti(L, -2, i);
  }
  mark_array(L);
  return 1;
}

static int null_tostring(lua_State *L) {
  lua_pushliteral(L, "null");
  return 1;
}

static void json_open(lua_State *L) {
  rows_open(L);
  luaL_newmetatable(L, ARRAY_METATABLE);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  json_array_mark = hvalue(s2v(L->top.p - 1));
  lua_pop(L, 1);
  luaL_newmetatable(L, RECORD_METATABLE);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  json_record_mark = hvalue(s2v(L->top.p - 1));
  lua_newtable(L);
  json_record_shown = hvalue(s2v(L->top.p - 1));
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, RECORD_SHOWN);
  lua_pop(L, 1);
  lua_pushlightuserdata(L, &json_null);
  lua_createtable(L, 0, 3);
  lua_pushcfunction(L, null_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushliteral(L, "null");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

static void remove_field(lua_State *L, const char *table, const char *name) {
  lua_getglobal(L, table);
  lua_pushnil(L);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static void libraries_open(lua_State *L) {
  static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},       {LUA_COLIBNAME, luaopen_coroutine},
                                       {LUA_TABLIBNAME, luaopen_table}, {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_MATHLIBNAME, luaopen_math}, {LUA_UTF8LIBNAME, luaopen_utf8},
                                       {NULL, NULL}};
  for (const luaL_Reg *library = libraries; library->func; library++) {
    luaL_requiref(L, library->name, library->func, 1);
    lua_pop(L, 1);
  }
  static const char *const removed[] = {"load", "loadfile", "dofile", "collectgarbage", NULL};
  for (int i = 0; removed[i]; i++) remove_field(L, LUA_GNAME, removed[i]);
  remove_field(L, LUA_STRLIBNAME, "dump");
  luaL_newlib(L, os_functions);
  lua_setglobal(L, "os");
}

static int entry_done(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  return lua_gettop(L);
}

/* A function of the prelude as scripts see it: a C function, which leaves the caller's frame on the stack. A tail call of a
   Lua function replaces that frame, and errors would have no line. */
static int entry(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, entry_done);
  return lua_gettop(L);
}

/* entries(table): makes each Lua function in the table an entry, and returns the table. */
static int prelude_entries(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
      lua_pushcclosure(L, entry, 1);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, 1);
    } else {
      lua_pop(L, 1);
    }
  }
  return 1;
}

/* Makes the global functions, and those in global tables, entries. Registers the tables where Lua looks for the names of
   functions in error messages. */
static void open_entries(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_istable(L, -1)) {
      lua_pushcfunction(L, prelude_entries);
      lua_pushvalue(L, -2);
      lua_call(L, 1, 0);
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, -6);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

/* Pushes the set of the names of globals, which are Lua's own before the prelude's files run. */
static void push_own_globals(lua_State *L) {
  lua_newtable(L);
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
}

/* Pushes the table of internals, the second argument of every prelude file. */
static void push_internals(lua_State *L) {
  static const luaL_Reg internals[] = {
      {"raise", prelude_raise}, {"encode", prelude_encode}, {"decode", prelude_decode}, {"array", prelude_array},
      {"text", prelude_text},   {"chunk", prelude_chunk},   {"entries", prelude_entries},
      {"resume", parallel_resume}, {"perform", parallel_perform}, {"rethrow", parallel_rethrow}, {NULL, NULL}};
  luaL_newlib(L, internals);
  lua_pushlightuserdata(L, &json_null);
  lua_setfield(L, -2, "null");
  luaL_getmetatable(L, RECORD_METATABLE);
  lua_setfield(L, -2, "record_metatable");
  lua_getfield(L, LUA_REGISTRYINDEX, RECORD_SHOWN);
  lua_setfield(L, -2, "record_shown");
  push_own_globals(L);
  lua_setfield(L, -2, "own_globals");
}

/* on_start(hook): registers a function that is called with the run's context before the script starts. Available only
   while the prelude loads. */
static int prelude_on_start(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_rawseti(L, lua_upvalueindex(1), (lua_Integer)lua_rawlen(L, lua_upvalueindex(1)) + 1);
  return 0;
}

/* on_v3(hook): registers the function that removes the globals of v2 before a v3 script starts. */
static int prelude_on_v3(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_setfield(L, lua_upvalueindex(1), "v3");
  return 0;
}

/* Runs the prelude. Each file is a chunk that is called with the host's interfaces and the internals, and sets globals.
   It keeps both in locals, where scripts can't reach them. Returns a registry reference to the array of start hooks. */
static int prelude_open(lua_State *L) {
  lua_newtable(L);
  lua_pushvalue(L, -1);
  int hooks = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, prelude_on_v3, 1);
  lua_insert(L, -2);
  lua_pushcclosure(L, prelude_on_start, 1);
  push_host(L);
  push_internals(L);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "on_start");
  lua_pushvalue(L, -4);
  lua_setfield(L, -2, "on_v3");
  for (const struct prelude_file *file = prelude_files; file->source; file++) {
    if (luaL_loadbufferx(L, (const char *)file->source, file->length, PRELUDE_NAME, "t") != LUA_OK) lua_error(L);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 0);
  }
  lua_pop(L, 4);
  open_entries(L);
  return hooks;
}
