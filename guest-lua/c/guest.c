/* The guest's exports: init (creates the Lua state of the image), compile, check, run. An instance is used once. */

enum {
  /* Garbage that may pile up before the first collection: most runs end without one. */
  GC_HEADROOM = 512 << 10,
  /* Slots of Lua stack in the image, so that an ordinary run never grows it. */
  STACK_SLOTS = 400,
  /* Names of globals for which the image has room, so that those of a run are added without a rehash: twice the prelude's. */
  GLOBALS = 128,
  /* Bytes of a failure's message or traceback, and of a text of a raised table, that are reported; the rest is cut off. */
  FAILURE_TEXT = 4 << 10,
};

static lua_State *main_state;
static int reseed_ref = LUA_NOREF;
static int hooks_ref = LUA_NOREF;
static int arguments_ref = LUA_NOREF;

static int on_panic(lua_State *L) {
  (void)L;
  __builtin_trap();
}

static int open_all(lua_State *L) {
  libraries_open(L);
  json_open(L);
  fault_open(L);
  hooks_ref = prelude_open(L);
  lua_getglobal(L, "math");
  lua_getfield(L, -1, "randomseed");
  reseed_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

void exports_guest_init(void) {
  lua_State *L = main_state = lua_newstate(memory_alloc, NULL);
  if (!L) __builtin_trap();
  meter_open(L);
  lua_atpanic(L, on_panic);
  lua_pushcfunction(L, open_all);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) __builtin_trap();
  lua_gc(L, LUA_GCCOLLECT);
  lua_checkstack(L, STACK_SLOTS);
  lua_pushglobaltable(L);
  luaH_resize(L, hvalue(s2v(L->top.p - 1)), 0, GLOBALS);
  lua_pop(L, 1);
  memory_settle((char *)prelude_sources, sizeof prelude_sources);
  profile_reset();
  luaE_setdebt(G(L), -(l_mem)GC_HEADROOM);
}

static void give_text(guest_list_u8_t *out, const char *text, size_t n) {
  if (n > FAILURE_TEXT) n = FAILURE_TEXT;
  out->ptr = malloc(n ? n : 1);
  out->len = out->ptr ? n : 0;
  if (out->ptr) memcpy(out->ptr, text, n);
}

/* Fills in `failure` from the error on top of the stack: a text, optionally followed by a NUL and a traceback.
   Allocates nothing in Lua, because it runs outside any protected call. */
static void give_failure(lua_State *L, guest_failure_t *failure, int kind, int line) {
  size_t n = 0;
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
  if (!text) text = "(the error value is not a string)", n = strlen(text);
  size_t first = strlen(text);
  *failure = (guest_failure_t){.kind = (uint8_t)kind};
  give_text(&failure->message, text, first);
  if (line > 0) failure->line.is_some = 1, failure->line.val = (uint32_t)line;
  if (first + 1 < n) {
    failure->traceback.is_some = 1;
    give_text(&failure->traceback.val, text + first + 1, n - first - 1);
  }
}

/* The line in "chunk:LINE: message", the format of the parser's errors; 0 when there is none. The chunk's name itself
   contains colons. */
static int line_of_message(const char *message, const char *name) {
  size_t n = strlen(name);
  if (strncmp(message, name, n) != 0 || message[n] != ':') return 0;
  return atoi(message + n + 1);
}

static int collect_bytes(lua_State *L, const void *bytes, size_t n, void *out) {
  buffer_put(L, out, bytes, n);
  return 0;
}

/* The rest of a source that is compiled. */
typedef struct {
  const char *at, *end;
} Source;

/* A lua_Reader that gives one line at a time, so that `meter_compiling` is the line that the parser has read. */
static const char *read_line(lua_State *L, void *data, size_t *size) {
  (void)L;
  Source *source = data;
  const char *line = source->at;
  if (line == source->end) return NULL;
  const char *newline = memchr(line, '\n', (size_t)(source->end - line));
  source->at = newline ? newline + 1 : source->end;
  meter_compiling++;
  *size = (size_t)(source->at - line);
  return line;
}

/* Skips a byte order mark and, as Lua does for files, the text of a first line that begins with #. Its newline stays, so
   that the other lines keep their numbers. */
static void skip_head(Source *source) {
  if (source->end - source->at >= 3 && memcmp(source->at, "\xef\xbb\xbf", 3) == 0) source->at += 3;
  if (source->at == source->end || *source->at != '#') return;
  const char *newline = memchr(source->at, '\n', (size_t)(source->end - source->at));
  source->at = newline ? newline : source->end;
}

bool exports_guest_compile(guest_string_t *name, guest_list_u8_t *source, guest_list_u8_t *ret, guest_failure_t *err) {
  lua_State *L = main_state;
  char chunk[LUA_IDSIZE + 1] = "=";
  size_t n = name->len < LUA_IDSIZE - 1 ? name->len : LUA_IDSIZE - 1;
  memcpy(chunk + 1, name->ptr, n);
  chunk[1 + n] = '\0';
  Source rest = {(char *)source->ptr, (char *)source->ptr + source->len};
  skip_head(&rest);
  meter_compiling = 0;
  int status = lua_load(L, read_line, &rest, chunk, "t");
  int last = meter_compiling;
  meter_compiling = 0;
  if (status != LUA_OK) {
    const char *message = lua_tostring(L, -1);
    int kind = status == LUA_ERRMEM ? BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_MEMORY : BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_SYNTAX;
    int line = message ? line_of_message(message, chunk + 1) : 0;
    give_failure(L, err, kind, line ? line : last);
    return false;
  }
  Buffer out = {0};
  lua_dump(L, collect_bytes, &out, 0);
  buffer_release(&out, &ret->ptr, &ret->len);
  return true;
}

/* The inputs of the protected part of a run, and what it records for a failure. */
typedef struct {
  guest_list_u8_t bytecode;
  const guest_list_u8_t *globals; /* NULL for a check */
  belvedere_script_types_checked_t *checked; /* NULL for a run */
  const guest_list_u8_t *context;
  uint64_t seed;
  int is_library;
  int is_v3;
  Buffer out;
  int shape;
  int missing_handle;
  int handle_line; /* where the function handle begins */
  int line;
  char fault[FAULT_CODE];
  int64_t answer;
  belvedere_script_types_option_raised_t raised;
} Run;

static Run current;

static void note_field(lua_State *L, int index, const char *name, belvedere_script_types_field_t *field) {
  size_t n;
  take_field(L, index, name);
  int type = lua_type(L, -1);
  field->tag = type == LUA_TNIL      ? BELVEDERE_SCRIPT_TYPES_FIELD_ABSENT
               : type == LUA_TSTRING ? BELVEDERE_SCRIPT_TYPES_FIELD_TEXT
                                     : BELVEDERE_SCRIPT_TYPES_FIELD_OTHER;
  if (type == LUA_TSTRING) {
    const char *text = lua_tolstring(L, -1, &n);
    give_text(&field->val.text, text, n);
  }
  lua_pop(L, 1);
}

/* If the value at `index` is a table with a status, and no fault, stores the fields from which the host makes an answer. */
static void note_raised(lua_State *L, int index) {
  current.raised.is_some = 0;
  if (!lua_istable(L, index) || is_fault(L, index)) return;
  take_field(L, index, "status");
  int type = lua_type(L, -1), exact = 0;
  current.raised.is_some = type != LUA_TNIL;
  current.raised.val.status.val = type == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : 0;
  current.raised.val.status.is_some = exact;
  lua_pop(L, 1);
  if (!current.raised.is_some) return;
  note_field(L, index, "error", &current.raised.val.error);
  note_field(L, index, "message", &current.raised.val.message);
}

static int error_json(lua_State *L) {
  json_scratch.len = 0;
  json_encode(L, 1, &json_scratch, "error");
  lua_pushlstring(L, json_scratch.data, json_scratch.len);
  return 1;
}

/* Pushes the error at `index` as text: a table that has no text of its own as JSON, or why that can't be. */
static void push_error_text(lua_State *L, int index) {
  if (lua_istable(L, index) && luaL_getmetafield(L, index, "__tostring") == LUA_TNIL) {
    lua_pushcfunction(L, error_json);
    lua_pushvalue(L, index);
    lua_pcall(L, 1, 1, 0);
    index = lua_gettop(L);
  }
  luaL_tolstring(L, index, NULL);
}

/* The message handler: records the script's line and what the host needs to know of the error, and turns it into text:
   the message, a NUL, and the traceback. */
static int on_error(lua_State *L) {
  int line = parallel_line(L, 1);
  if (!line) line = script_line(L);
  current.line = line ? line : current.handle_line;
  note_fault(L, 1, current.fault, &current.answer);
  note_raised(L, 1);
  push_error_text(L, 1);
  lua_pushlstring(L, "", 1);
  luaL_traceback(L, L, NULL, 1);
  lua_concat(L, 3);
  return 1;
}

static int env_of_check(lua_State *L) {
  lua_pushliteral(L, "");
  return 1;
}

static void set_globals(lua_State *L) {
  if (!current.globals) { /* a check: every script variable is "" */
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, env_of_check);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setglobal(L, "env");
    return;
  }
  json_decode(L, (const char *)current.globals->ptr, current.globals->len, 1, "the run's globals");
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, -3)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_pop(L, 2);
}

/* Keeps the arguments of a v3 script's handle, and shows the hooks of jobs their table. Nothing in a check. */
static void take_arguments(lua_State *L) {
  if (!current.globals) return;
  json_decode(L, (const char *)current.globals->ptr, current.globals->len, 1, "the run's arguments");
  lua_getfield(L, -1, "ctx");
  lua_getfield(L, -1, "job");
  lua_setglobal(L, "job");
  lua_pop(L, 1);
  arguments_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Pushes the arguments of handle, and returns their number. */
static int push_arguments(lua_State *L) {
  if (!current.is_v3) return 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, arguments_ref);
  lua_getfield(L, -1, "input");
  lua_getfield(L, -2, "ctx");
  lua_remove(L, -3);
  return 2;
}

/* Removes the globals of v2. */
static void leave_v2(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, hooks_ref);
  lua_getfield(L, -1, "v3");
  lua_call(L, 0, 0);
  lua_settop(L, 0);
}

/* Calls the prelude's start hooks with the run's context. */
static void run_hooks(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, hooks_ref);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  if (n > 0) json_decode(L, (const char *)current.context->ptr, current.context->len, 0, "the run's context");
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -2, i);
    lua_pushvalue(L, -2);
    lua_call(L, 1, 0);
  }
  lua_settop(L, 0);
}

static int run_protected(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, reseed_ref);
  lua_pushinteger(L, (lua_Integer)current.seed);
  lua_pushinteger(L, 0);
  lua_call(L, 2, 0);
  if (current.is_v3) take_arguments(L);
  else set_globals(L);
  if (current.context) run_hooks(L);
  if (current.is_v3) leave_v2(L);
  if (luaL_loadbufferx(L, (char *)current.bytecode.ptr, current.bytecode.len, "=script", "b") != LUA_OK) lua_error(L);
  meter_script = getstr(clLvalue(s2v(L->top.p - 1))->p->source);
  if (current.checked) lua_pushvalue(L, -1);
  lua_call(L, 0, 0);
  if (current.checked) check_names(L, current.checked);
  if (current.is_library) return 0;
  if (lua_getglobal(L, "handle") != LUA_TFUNCTION) {
    current.missing_handle = 1;
    return luaL_error(L, "the script defines no function handle()");
  }
  if (!current.globals) return 0;
  const TValue *handle = s2v(L->top.p - 1);
  if (ttisLclosure(handle)) {
    const Proto *function = clLvalue(handle)->p;
    if (function->source && getstr(function->source) == meter_script) current.handle_line = function->linedefined;
  }
  lua_call(L, push_arguments(L), 1);
  int type = lua_type(L, -1);
  current.shape = type == LUA_TNIL     ? BELVEDERE_SCRIPT_TYPES_SHAPE_NOTHING
                  : type == LUA_TTABLE ? BELVEDERE_SCRIPT_TYPES_SHAPE_TABLE
                                       : BELVEDERE_SCRIPT_TYPES_SHAPE_OTHER;
  json_encode(L, -1, &current.out, "result");
  return 0;
}

/* Adds what `on_error` recorded about the error to the failure. */
static void give_error(guest_failure_t *failure) {
  size_t n = strlen(current.fault);
  if (n) {
    guest_list_u8_t text;
    give_text(&text, current.fault, n);
    failure->fault.is_some = 1;
    failure->fault.val = (guest_string_t){.ptr = text.ptr, .len = text.len};
  }
  if (current.answer >= 0 && current.answer <= UINT32_MAX) {
    failure->answer.is_some = 1;
    failure->answer.val = (uint32_t)current.answer;
  }
  failure->raised = current.raised;
}

/* Whether an error with an ordinary status is an out-of-memory error: Lua's string buffers raise it as a plain error
   with the VM's message. */
static int out_of_memory(lua_State *L) {
  return lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), MEMERRMSG) == 0;
}

static bool run(Run inputs, uint32_t instructions, bool sliced, guest_failure_t *err) {
  lua_State *L = main_state;
  current = inputs;
  current.answer = -1;
  meter_left = (int32_t)instructions;
  meter_slice = sliced ? (int32_t)instructions : 0;
  lua_pushcfunction(L, on_error);
  lua_pushcfunction(L, run_protected);
  int status = lua_pcall(L, 0, 0, 1);
  if (status == LUA_OK) return true;
  int kind = current.missing_handle ? BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_MISSING_HANDLE
             : status == LUA_ERRMEM || out_of_memory(L) ? BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_MEMORY
                                    : BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_RUNTIME;
  int is_memory = kind == BELVEDERE_SCRIPT_TYPES_FAILURE_KIND_MEMORY;
  give_failure(L, err, kind, status == LUA_ERRMEM ? meter_memory_line : current.line);
  if (!is_memory) give_error(err);
  return false;
}

bool exports_guest_check(guest_list_u8_t *bytecode, uint32_t instructions, bool is_library, bool v3,
                         belvedere_script_types_checked_t *ret, guest_failure_t *err) {
  *ret = (belvedere_script_types_checked_t){0};
  Run inputs = {.bytecode = *bytecode, .checked = ret, .is_library = is_library, .is_v3 = v3};
  return run(inputs, instructions, false, err);
}

bool exports_guest_run(guest_list_u8_t *bytecode, guest_list_u8_t *globals, guest_list_u8_t *context, uint64_t seed,
                       uint32_t instructions, bool sliced, bool v3, guest_reply_t *ret, guest_failure_t *err) {
  Run inputs = {.bytecode = *bytecode, .globals = globals, .context = context, .seed = seed, .is_v3 = v3};
  if (!run(inputs, instructions, sliced, err)) return false;
  ret->shape = (uint8_t)current.shape;
  buffer_release(&current.out, &ret->body.ptr, &ret->body.len);
  return true;
}
