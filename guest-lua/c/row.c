/* Records from the host stay text until something looks at their fields: most scripts pass on most of what a query
   returns. Such a table is a row: it has a metatable that scripts can't get at, and in its nodes, under keys that no
   script can have, the place of its text and the page that keeps the text alive. Whatever reads or changes it opens it
   first, which decodes the text into the same table. The patches of lapi.c (build/patches.rs) do that for functions that ignore
   metamethods, such as next and rawget. */

/* The URI and the record of a row, as the host packed them. */
typedef struct {
  const char *uri, *record;
  uint32_t uri_len, record_len;
} RowText;

/* In the length of a packed record: its text begins with the quote of its first field, it ends with a brace, and it has no
   field `uri`, so that one can be added to the text. */
#define ROW_STAYS_TEXT 0x80000000u

/* The metatable of rows. Until it is made, no table has it. */
static Table row_none;
static Table *row_mark = &row_none;

static char row_key;

static inline int is_row(const Table *t) { return t->metatable == row_mark; }

static inline uint32_t row_length(const char *at) {
  uint32_t n;
  memcpy(&n, at, sizeof n);
  return n;
}

/* The row whose packed parts begin at `at`. */
static RowText row_read(const char *at) {
  RowText row = {.uri = at + sizeof(uint32_t), .uri_len = row_length(at)};
  at = row.uri + row.uri_len;
  row.record = at + sizeof(uint32_t);
  row.record_len = row_length(at) & ~ROW_STAYS_TEXT;
  return row;
}

/* The text of a row. */
static RowText row_text(const Table *t) { return row_read(pvalue(gval(gnode(t, 0)))); }

static void row_node(Node *node) {
  keytt(node) = LUA_VLIGHTUSERDATA;
  keyval(node).p = &row_key;
  gnext(node) = 0;
}

/* Pushes a row whose packed parts begin at `at`, in the userdata at the index `page`. */
static void push_row(lua_State *L, int page, const char *at) {
  Table *t = luaH_new(L);
  sethvalue2s(L, L->top.p, t);
  L->top.p++;
  luaH_resize(L, t, 0, 2);
  setpvalue(gval(gnode(t, 0)), (void *)at);
  setobj(L, gval(gnode(t, 1)), index2value(L, page));
  row_node(gnode(t, 0));
  row_node(gnode(t, 1));
  luaC_barrierback(L, obj2gco(t), index2value(L, page));
  t->metatable = row_mark;
  luaC_objbarrier(L, obj2gco(t), row_mark);
  luaC_checkGC(L);
}

static int row_index(lua_State *L) {
  lua_settop(L, 2);
  lua_rawget(L, 1); /* opens the row */
  return 1;
}

/* Raises the errors of Lua's own assignment here, where the position of the caller is known. */
static int row_newindex(lua_State *L) {
  lua_settop(L, 3);
  if (lua_isnil(L, 2)) return luaL_error(L, "table index is nil");
  if (lua_type(L, 2) == LUA_TNUMBER && !lua_rawequal(L, 2, 2)) return luaL_error(L, "table index is NaN");
  lua_rawset(L, 1);
  return 0;
}

static void rows_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"__index", row_index}, {"__newindex", row_newindex}, {NULL, NULL}};
  lua_createtable(L, 0, 2); /* luaL_newmetatable would set a name, which appears in error messages */
  luaL_setfuncs(L, methods, 0);
  row_mark = hvalue(s2v(L->top.p - 1));
  luaL_ref(L, LUA_REGISTRYINDEX);
}
