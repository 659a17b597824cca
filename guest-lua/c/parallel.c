/* The tasks of `parallel` (prelude/parallel.lua): coroutines, each of which runs one function. A call of the host that waits is
   not made at once in a task: it is announced to the host, and the task yields. When no task can go on, the host makes the announced
   calls at the same time, and each task takes its answer. So the order in which code runs depends on no answer's time. The generated
   glue (glue.c) calls these functions. */

enum {
  /* Calls that are made at the same time; the host has the same limit. A task that finds them announced waits for the next turn. */
  PARALLEL_CALLS = 8,
};

/* The task that runs; NULL outside of tasks. A coroutine that a task has resumed is none. */
static lua_State *parallel_task;

/* The numbers of the last call that was announced, and of the last that was made. */
static uint32_t parallel_announced, parallel_made;

/* Whether the task that has yielded last waits for a call. Otherwise the script has yielded. */
static int parallel_waits;

/* Lua can not yield in a function that table.sort calls, for example: there calls are made at once. */
static int parallel_in_task(lua_State *L) { return L == parallel_task && lua_isyieldable(L); }

static int parallel_yield(lua_State *L, lua_KContext number, lua_KFunction go_on) {
  parallel_waits = 1;
  return lua_yieldk(L, 0, number, go_on);
}

/* Whether a call can't go on: its answer is not there yet, though something has resumed its task, or too many others are announced.
   `number` is 0 before it is announced. */
static int parallel_must_wait(lua_State *L, lua_KContext number) {
  if (number) return (uint32_t)number > parallel_made;
  return parallel_in_task(L) && parallel_announced - parallel_made >= PARALLEL_CALLS;
}

/* Tells the host what the next call of it means. Returns whether it only announces the call, which has got a number then. */
static int parallel_begin(lua_State *L, lua_KContext *number) {
  if (*number) {
    belvedere_script_parallel_collect((uint32_t)*number);
    return 0;
  }
  if (!parallel_in_task(L)) return 0;
  *number = (lua_KContext)++parallel_announced;
  belvedere_script_parallel_defer(parallel_announced);
  return 1;
}

static int parallel_performed(lua_State *L, int status, lua_KContext context) {
  (void)L, (void)status, (void)context;
  return 0;
}

/* perform(): has the announced calls made, by the tasks around this one if there are any: they may announce more. */
static int parallel_perform(lua_State *L) {
  if (parallel_announced == parallel_made) return 0;
  if (parallel_in_task(L)) return parallel_yield(L, 0, parallel_performed);
  belvedere_script_parallel_perform();
  parallel_made = parallel_announced;
  return 0;
}

/* resume(task): runs it until it ends or waits. Returns nothing while it waits; true and its first value; or false, its error and the
   line of the error. */
static int parallel_resume(lua_State *L) {
  lua_State *task = lua_tothread(L, 1), *outer = parallel_task;
  parallel_task = task;
  parallel_waits = 0;
  int values = auxresume(L, task, 0);
  parallel_task = outer;
  if (values >= 0 && lua_status(task) != LUA_YIELD) {
    lua_settop(L, 2);
    lua_pushboolean(L, 1);
    lua_insert(L, 2);
    return 2;
  }
  if (values >= 0 && parallel_waits) return 0;
  int line = script_line(task);
  if (values >= 0) {
    lua_settop(L, 1);
    lua_pushliteral(L, "parallel: a function can't yield");
  }
  /* One that the script has closed is not closed again. */
  if (lua_status(task) != LUA_OK && lua_closethread(task, L) != LUA_OK) lua_xmove(task, L, 1);
  lua_pushboolean(L, 0);
  lua_pushvalue(L, -2);
  lua_pushinteger(L, line);
  return 3;
}

/* The key of the error that was raised again, in the registry, and the line at which it was raised first. */
static int parallel_error_line;

/* rethrow(error, line): raises the error of a task where its `parallel` was called. */
static int parallel_rethrow(lua_State *L) {
  parallel_error_line = (int)lua_tointeger(L, 2);
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &parallel_error_line);
  return lua_error(L);
}

/* The line at which the error at `index` was raised, if a task raised it; else 0. */
static int parallel_line(lua_State *L, int index) {
  if (!parallel_error_line) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &parallel_error_line);
  int is_same = lua_rawequal(L, -1, index);
  lua_pop(L, 1);
  return is_same ? parallel_error_line : 0;
}
