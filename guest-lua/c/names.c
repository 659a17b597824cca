/* Finds the names that a source uses and nothing defines: globals, and fields of the prelude's tables. For the check when a
   script is saved; its top level has run. */

enum {
  /* Names that are reported of one source. */
  UNKNOWN_NAMES = 100,
  /* Names that may have been meant: some times as many as the prelude has. */
  KNOWN_NAMES = 1000,
};

/* The names that were found, and the tables to compare them with. */
typedef struct {
  Table *globals;
  Table *assigned; /* by the source */
  belvedere_script_types_unknown_names_t *unknown;
} Names;

/* Stores `owner.name`, or `name` without an owner. */
static int store_name(guest_string_t *out, const char *owner, const char *name) {
  size_t before = owner ? strlen(owner) + 1 : 0, n = strlen(name);
  char *text = malloc(before + n);
  if (!text) return 0;
  if (owner) memcpy(text, owner, before - 1), text[before - 1] = '.';
  memcpy(text + before, name, n);
  *out = (guest_string_t){.ptr = (uint8_t *)text, .len = before + n};
  return 1;
}

static int is_global_access(const Proto *p, OpCode opcode, int upvalue) {
  if (opcode != OP_GETTABUP && opcode != OP_SETTABUP) return 0;
  const TString *name = p->upvalues[upvalue].name;
  return name && strcmp(getstr(name), "_ENV") == 0;
}

static const char *key_text(const TValue *key) { return getstr(tsvalue(key)); }

/* Records in the table at `index` the globals that a function and those in it assign: some of them may run later. */
static void note_assigned(lua_State *L, const Proto *p, int index) {
  for (int pc = 0; pc < p->sizecode; pc++) {
    Instruction i = p->code[pc];
    if (GET_OPCODE(i) != OP_SETTABUP || !is_global_access(p, OP_SETTABUP, GETARG_A(i))) continue;
    lua_pushstring(L, key_text(&p->k[GETARG_B(i)]));
    lua_pushboolean(L, 1);
    lua_rawset(L, index);
  }
  for (int n = 0; n < p->sizep; n++) note_assigned(L, p->p[n], index);
}

static void note_unknown(Names *names, const char *owner, const char *name, int line) {
  belvedere_script_types_unknown_names_t *list = names->unknown;
  if (list->len == UNKNOWN_NAMES || !store_name(&list->ptr[list->len].name, owner, name)) return;
  list->ptr[list->len++].line = (uint32_t)line;
}

static int is_set(Table *table, const TValue *key) { return !isempty(luaH_getstr(table, tsvalue(key))); }

static void find_unknown(const Proto *p, Names *names) {
  for (int pc = 0; pc < p->sizecode; pc++) {
    Instruction i = p->code[pc];
    if (GET_OPCODE(i) != OP_GETTABUP || !is_global_access(p, OP_GETTABUP, GETARG_B(i))) continue;
    const TValue *name = &p->k[GETARG_C(i)];
    int line = luaG_getfuncline(p, pc);
    if (!is_set(names->globals, name)) {
      if (!is_set(names->assigned, name)) note_unknown(names, NULL, key_text(name), line);
      continue;
    }
    const TValue *value = luaH_getstr(names->globals, tsvalue(name));
    Instruction next = pc + 1 < p->sizecode ? p->code[pc + 1] : i;
    /* A table of the script may get its fields later, and one with a metatable may make them. */
    if (GET_OPCODE(next) != OP_GETFIELD || GETARG_B(next) != GETARG_A(i) || !ttistable(value) || hvalue(value)->metatable) continue;
    const TValue *field = &p->k[GETARG_C(next)];
    if (!is_set(names->assigned, name) && !is_set(hvalue(value), field)) note_unknown(names, key_text(name), key_text(field), line);
  }
  for (int n = 0; n < p->sizep; n++) find_unknown(p->p[n], names);
}

/* Lists the names of the fields of the table at `index`, and those of the tables in it. */
static void list_known(lua_State *L, int index, const char *owner, belvedere_script_types_names_t *known) {
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) == LUA_TSTRING && known->len < KNOWN_NAMES) {
      const char *name = lua_tostring(L, -2);
      if (store_name(&known->ptr[known->len], owner, name)) known->len++;
      if (!owner && lua_istable(L, -1) && lua_rawequal(L, -1, index) == 0) list_known(L, lua_gettop(L), name, known);
    }
    lua_pop(L, 1);
  }
}

/* Finds the unknown names of the function at the top of the stack, and the names that may have been meant. */
static void check_names(lua_State *L, belvedere_script_types_checked_t *checked) {
  const Proto *p = clLvalue(s2v(L->top.p - 1))->p;
  lua_pushglobaltable(L);
  int globals = lua_gettop(L);
  if (hvalue(s2v(L->top.p - 1))->metatable) return; /* the script decides what is missing */
  lua_newtable(L);
  note_assigned(L, p, globals + 1);
  checked->unknown.ptr = calloc(UNKNOWN_NAMES, sizeof *checked->unknown.ptr);
  if (!checked->unknown.ptr) return;
  Names names = {hvalue(s2v(L->top.p - 2)), hvalue(s2v(L->top.p - 1)), &checked->unknown};
  find_unknown(p, &names);
  if (checked->unknown.len == 0) return;
  checked->known.ptr = calloc(KNOWN_NAMES, sizeof *checked->known.ptr);
  if (checked->known.ptr) list_known(L, globals, NULL, &checked->known);
}
