/* Raising errors that blame the script's line, whatever lies between. */

/* Pushes "chunk:line: " of the nearest frame of the script, or "". */
static void push_position(lua_State *L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && strcmp(frame.source, PRELUDE_NAME) != 0) {
      lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
      return;
    }
  }
  lua_pushliteral(L, "");
}

static _Noreturn void raise(lua_State *L, const char *format, ...) {
  luaL_checkstack(L, 4, NULL);
  push_position(L);
  va_list args;
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  lua_concat(L, 2);
  lua_error(L);
  __builtin_unreachable();
}

/* For the prelude: raise(message). */
static int prelude_raise(lua_State *L) { raise(L, "%s", luaL_checkstring(L, 1)); }

/* The metatable of fault objects: tostring and .. give the message, and scripts can't reach it. */
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

/* Raises the fault record on top of the stack: a table with `message` and whatever else the contract gives it. */
static _Noreturn void raise_fault(lua_State *L) {
  push_position(L);
  lua_getfield(L, -2, "message");
  lua_concat(L, 2);
  lua_setfield(L, -2, "message");
  luaL_setmetatable(L, FAULT_METATABLE);
  lua_error(L);
  __builtin_unreachable();
}
