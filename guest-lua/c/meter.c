/* The instruction counter. The patched fetch macro of lvm.c decrements `meter_left` before every instruction of every
   coroutine; below zero it calls `meter_exhausted`, which does not return. The patch (build/lua.rs) declares both. */

/* In a job's run: the number of instructions allowed between two calls of the host. 0 in all other runs. */
static int meter_slice;

/* Called at the start of every host function. */
static inline void meter_host_called(void) {
  if (meter_slice) meter_left = meter_slice;
}

#define PRELUDE_NAME "=(belvedere)"

/* The script's line that `L` is executing; 0 when no frame of the script is on its stack. Allocates nothing. */
static int script_line(lua_State *L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && strcmp(frame.source, PRELUDE_NAME) != 0) return frame.currentline;
  }
  return 0;
}

static void meter_exhausted(lua_State *L) {
  belvedere_script_meter_exhausted((uint32_t)script_line(L));
  __builtin_trap();
}
