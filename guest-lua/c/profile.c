/* The profile of a run: how many instructions each line executed, under which calls. Part of the profiled guest only, in
   which every instruction calls `profile_instruction` (build/patches.rs). Allocates nothing in Lua, so that garbage is
   collected when it would be without a profile, and counts stay equal. */

enum {
  /* Places in a profile. The last ones are for lines whose callers are no longer told apart. */
  PROFILE_PLACES = 8192,
  PROFILE_SHARED = 2048,
  PROFILE_SLOTS = 2 * PROFILE_PLACES,
  /* Calls above a place. */
  PROFILE_DEPTH = 100,
  PROFILE_FUNCTIONS = 2048,
  PROFILE_SOURCES = 64,
  /* Lines of a source that are told to hold code. */
  PROFILE_LINES = 16384,
  PROFILE_NAME = 48,
  PROFILE_CACHE = 256,
};

/* Places that are no line: no place, calls that are left out, and lines that are left out. */
enum { PLACE_NONE, PLACE_CUT, PLACE_OTHER, PLACES_RESERVED };

/* A line of a function, and the place that called the function. */
typedef struct {
  uint32_t caller, function, line, depth;
  uint64_t instructions;
} Place;

typedef struct {
  const Proto *code; /* NULL after it was freed */
  uint32_t source, line;
  char name[PROFILE_NAME];
} ProfiledFunction;

typedef struct {
  char name[LUA_IDSIZE];
  uint8_t lines[PROFILE_LINES / 8];
} ProfiledSource;

static Place profile_places[PROFILE_PLACES];
static ProfiledFunction profile_functions[PROFILE_FUNCTIONS];
static ProfiledSource profile_sources[PROFILE_SOURCES];
static uint16_t profile_slots[PROFILE_SLOTS];
static uint16_t profile_cache[PROFILE_CACHE];
static uint32_t profile_place_count, profile_function_count, profile_source_count;

/* The place of the last instruction, its frame, and the instruction after it. */
static uint32_t profile_place;
static CallInfo *profile_frame;
static const Instruction *profile_next;

/* Function 0 and source 0 stand for those that did not fit. */
static void profile_reset(void) {
  memset(profile_places, 0, sizeof profile_places);
  memset(profile_functions, 0, sizeof profile_functions);
  memset(profile_sources, 0, sizeof profile_sources);
  memset(profile_slots, 0, sizeof profile_slots);
  memset(profile_cache, 0, sizeof profile_cache);
  profile_place_count = PLACES_RESERVED;
  profile_function_count = profile_source_count = 1;
  profile_place = PLACE_NONE;
  profile_frame = NULL;
}

static uint32_t profile_source(const TString *source) {
  const char *name = source ? getstr(source) : "=?";
  for (uint32_t i = 1; i < profile_source_count; i++) {
    if (strncmp(profile_sources[i].name, name, LUA_IDSIZE - 1) == 0) return i;
  }
  if (profile_source_count == PROFILE_SOURCES) return 0;
  strncpy(profile_sources[profile_source_count].name, name, LUA_IDSIZE - 1);
  return profile_source_count++;
}

/* Notes which lines of a function and of those inside it hold code. The first instruction of a function with variable
   arguments and the last of each function have no statement of their own. */
static void profile_note_lines(const Proto *p, uint8_t *lines) {
  int line = p->linedefined;
  for (int at = 0; at < p->sizelineinfo; at++) {
    line = luaG_getfuncline(p, at);
    if ((at == 0 && p->is_vararg) || at == p->sizelineinfo - 1) continue;
    if (line > 0 && line < PROFILE_LINES) lines[line / 8] |= (uint8_t)(1 << line % 8);
  }
  for (int i = 0; i < p->sizep; i++) profile_note_lines(p->p[i], lines);
}

static uint32_t profile_function(lua_State *L, CallInfo *ci, const Proto *p) {
  uint16_t *cached = &profile_cache[((uintptr_t)p >> 4) % PROFILE_CACHE];
  if (profile_functions[*cached].code == p) return *cached;
  uint32_t i = 1;
  while (i < profile_function_count && profile_functions[i].code != p) i++;
  if (i == profile_function_count) {
    if (i == PROFILE_FUNCTIONS) return 0;
    profile_function_count++;
    ProfiledFunction *function = &profile_functions[i];
    function->code = p;
    function->line = (uint32_t)p->linedefined;
    function->source = profile_source(p->source);
    const char *name = NULL;
    if (getfuncname(L, ci, &name) && name) strncpy(function->name, name, PROFILE_NAME - 1);
    if (p->linedefined == 0 && function->source) profile_note_lines(p, profile_sources[function->source].lines);
  }
  *cached = (uint16_t)i;
  return i;
}

/* Called when a function's code is freed: another may get its address. */
static void profile_forget(const Proto *p) {
  for (uint32_t i = 1; i < profile_function_count; i++) {
    if (profile_functions[i].code == p) profile_functions[i].code = NULL;
  }
}

/* Finds or adds a place. Without room for its caller it is a place under `PLACE_CUT`; without any room, `PLACE_OTHER`. */
static uint32_t profile_find(uint32_t caller, uint32_t function, uint32_t line) {
  for (;;) {
    uint32_t slot = (caller * 0x9e3779b1u ^ function * 0x85ebca6bu ^ line * 0xc2b2ae35u) >> 7;
    for (;; slot++) {
      uint32_t found = profile_slots[slot %= PROFILE_SLOTS];
      if (!found) break;
      const Place *place = &profile_places[found];
      if (place->caller == caller && place->function == function && place->line == line) return found;
    }
    uint32_t depth = caller >= PLACES_RESERVED ? profile_places[caller].depth + 1 : 0;
    uint32_t room = caller == PLACE_CUT ? PROFILE_PLACES : PROFILE_PLACES - PROFILE_SHARED;
    if (depth <= PROFILE_DEPTH && profile_place_count < room) {
      uint32_t added = profile_place_count++;
      profile_places[added] = (Place){.caller = caller, .function = function, .line = line, .depth = depth};
      return profile_slots[slot] = (uint16_t)added;
    }
    if (caller == PLACE_CUT) return PLACE_OTHER;
    caller = PLACE_CUT;
  }
}

/* The place that called the function of a frame, also across coroutines. */
static uint32_t profile_caller(lua_State *L, CallInfo *ci) {
  for (ci = ci->previous;; ci = L->ci) {
    for (; ci; ci = ci->previous) {
      if (isLua(ci) && ci->u.l.trap) return (uint32_t)ci->u.l.trap;
    }
    L = *meter_resumer(L);
    if (!L) return PLACE_NONE;
  }
}

/* lua_closethread of the coroutine library. What closes a coroutine calls its __close functions; the one that resumed it may be
   freed by then. */
static int profile_closethread(lua_State *L, lua_State *from) {
  *meter_resumer(L) = from;
  return lua_closethread(L, from);
}

/* Called when a frame starts or goes on after a yield. The profiled guest keeps the place of a frame in `trap`, which
   nothing else reads. */
static void profile_entered(CallInfo *ci) {
  ci->u.l.trap = PLACE_NONE;
  profile_frame = NULL;
}

static void profile_move(lua_State *L, CallInfo *ci, const Proto *p, const Instruction *pc) {
  uint32_t line = (uint32_t)luaG_getfuncline(p, (int)(pc - p->code)), place = (uint32_t)ci->u.l.trap;
  const Place *last = &profile_places[place];
  if (place < PLACES_RESERVED) place = profile_find(profile_caller(L, ci), profile_function(L, ci, p), line);
  else if (last->line != line) place = profile_find(last->caller, last->function, line);
  ci->u.l.trap = (int)place;
  profile_place = place;
  profile_frame = ci;
}

static inline void profile_instruction(lua_State *L, CallInfo *ci, const Instruction *pc) {
  const Proto *p = ci_func(ci)->p;
  if (ci != profile_frame || pc != profile_next || p->lineinfo[pc - p->code]) profile_move(L, ci, p, pc);
  profile_next = pc + 1;
  profile_places[profile_place].instructions++;
}

/* Around each call of the host. */
static inline void profile_calling(void) { belvedere_script_profile_calling(profile_place); }
static inline void profile_called(void) { belvedere_script_profile_called(); }

/* The tables of the profile, for the host, which reads them in the memory of a run that has ended. */
static struct {
  uint32_t instructions_left;
  uint32_t places, place_count;
  uint32_t functions, function_count;
  uint32_t sources, source_count;
} profile_tables;

__attribute__((export_name("profile_tables"))) uint32_t profile_read(void) {
  profile_tables.instructions_left = meter_instructions_left();
  profile_tables.places = (uint32_t)(uintptr_t)profile_places;
  profile_tables.place_count = profile_place_count;
  profile_tables.functions = (uint32_t)(uintptr_t)profile_functions;
  profile_tables.function_count = profile_function_count;
  profile_tables.sources = (uint32_t)(uintptr_t)profile_sources;
  profile_tables.source_count = profile_source_count;
  return (uint32_t)(uintptr_t)&profile_tables;
}
