/* Raises errors whose position is the script's line, even when prelude or C frames lie in between. */

/* Pushes "chunk:line: " of the nearest frame of the script, or "". */
static void push_position(lua_State *L) {
  lua_Debug frame;
  if (script_frame(L, &frame)) lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
  else lua_pushliteral(L, "");
}

/* The metatable of fault objects: tostring and .. use the message. Scripts can't get at it. */
static int fault_tostring(lua_State *L) {
  lua_getfield(L, 1, "message");
  return 1;
}

static int fault_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

#define FAULT_METATABLE "belvedere.fault"

enum { FAULT_CODE = 32 /* a fault's code and its NUL */ };

static void fault_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"__tostring", fault_tostring}, {"__concat", fault_concat}, {NULL, NULL}};
  luaL_newmetatable(L, FAULT_METATABLE);
  luaL_setfuncs(L, methods, 0);
  lua_pushliteral(L, "fault");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

/* Raises the fault on top of the stack: a table with the fields of the contract's `fault` record. */
static _Noreturn void raise_fault(lua_State *L) {
  push_position(L);
  lua_getfield(L, -2, "message");
  lua_concat(L, 2);
  lua_setfield(L, -2, "message");
  luaL_setmetatable(L, FAULT_METATABLE);
  lua_error(L);
  __builtin_unreachable();
}

/* Raises a fault with the code bad-input, as the host does for invalid arguments. */
static _Noreturn void raise(lua_State *L, const char *format, ...) {
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, 2);
  lua_pushliteral(L, "bad-input");
  lua_setfield(L, -2, "code");
  va_list args;
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_setfield(L, -2, "message");
  raise_fault(L);
}

/* For the prelude: raise(message), raise(message, code). */
static int prelude_raise(lua_State *L) {
  luaL_checkstring(L, 1);
  const char *code = luaL_optstring(L, 2, "bad-input");
  lua_settop(L, 2);
  lua_createtable(L, 0, 2);
  lua_pushstring(L, code);
  lua_setfield(L, -2, "code");
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "message");
  raise_fault(L);
}

static int is_fault(lua_State *L, int index) {
  if (!lua_istable(L, index) || !lua_getmetatable(L, index)) return 0;
  luaL_getmetatable(L, FAULT_METATABLE);
  int same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* If the value at `index` is a fault, stores its code and the number of the answer that goes with it (else -1). Runs no
   metamethods and allocates nothing but the two keys. */
static void note_fault(lua_State *L, int index, char code[FAULT_CODE], int64_t *answer) {
  code[0] = '\0';
  *answer = -1;
  if (!is_fault(L, index)) return;
  lua_pushliteral(L, "code");
  if (lua_rawget(L, index) == LUA_TSTRING) {
    strncpy(code, lua_tostring(L, -1), FAULT_CODE - 1);
    code[FAULT_CODE - 1] = '\0';
  }
  lua_pushliteral(L, "answer");
  if (lua_rawget(L, index) == LUA_TNUMBER) *answer = lua_tointeger(L, -1);
  lua_pop(L, 2);
}
