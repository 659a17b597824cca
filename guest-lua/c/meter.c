/* The instruction counter, and the script's line that is running, for errors and for runs that a limit ends. The patched
   fetch macro of lvm.c decrements `meter_left` before every instruction of every coroutine; below zero it calls
   `meter_exhausted`, which does not return. The patch (build/patches.rs) declares both. */

/* In a job's run: the number of instructions allowed between two calls of the host. 0 in all other runs. */
static int meter_slice;

/* Called at the start of every host function. */
static inline void meter_host_called(void) {
  if (meter_slice) meter_left = meter_slice;
}

#define PRELUDE_NAME "=(belvedere)"

/* The running coroutine, or the main state. */
static lua_State *meter_running;

/* The coroutine or main state that resumed `L`; NULL for the main state. */
static inline lua_State **meter_resumer(lua_State *L) { return lua_getextraspace(L); }

/* Called once, when the image is made. */
static void meter_open(lua_State *L) {
  *meter_resumer(L) = NULL;
  meter_running = L;
}

/* lua_resume of the coroutine library. */
static int meter_resume(lua_State *L, lua_State *from, int arguments, int *results) {
  *meter_resumer(L) = from;
  meter_running = L;
  int status = lua_resume(L, from, arguments, results);
  meter_running = from;
  return status;
}

/* The source of the script that runs, by which its frames are told from those of libraries; NULL before it is loaded. Only
   compared, because a script whose functions are all gone has no source any more. */
static const char *meter_script;

/* Finds the innermost frame of the script on the stack of `L` and of the coroutines below it. Allocates nothing. */
static int script_frame(lua_State *L, lua_Debug *frame) {
  for (; L; L = *meter_resumer(L)) {
    for (int level = 0; lua_getstack(L, level, frame); level++) {
      lua_getinfo(L, "Sl", frame);
      if (frame->currentline > 0 && frame->source == meter_script) return 1;
    }
  }
  return 0;
}

/* The script's line that `L` is executing; 0 when no frame of the script is on its stack. Allocates nothing. */
static int script_line(lua_State *L) {
  lua_Debug frame;
  return script_frame(L, &frame) ? frame.currentline : 0;
}

static void meter_exhausted(lua_State *L) {
  belvedere_script_meter_exhausted((uint32_t)script_line(L));
  __builtin_trap();
}

/* The line of the last memory error. */
static int meter_memory_line;

static void meter_out_of_memory(lua_State *L) { meter_memory_line = script_line(L); }

/* While a source is compiled: the line that is being read. */
static int meter_compiling;

/* The number of instructions that the run may still execute. The host calls this after a dry run, as below. */
__attribute__((export_name("instructions_left"))) uint32_t meter_instructions_left(void) {
  return meter_left > 0 ? (uint32_t)meter_left : 0;
}

/* The line at which the guest was stopped, 0 when there is none. The host calls this in the core instance of a run that
   did not return: nothing can enter its component again. Reads only what is on the heap. */
__attribute__((export_name("script_line"))) uint32_t meter_stopped_at(void) {
  return (uint32_t)(meter_compiling ? meter_compiling : script_line(meter_running));
}
