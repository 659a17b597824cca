/* Records from the host stay text until something looks at their fields: most scripts pass on most of what a query
   returns. Such a table is a row: it has a metatable that scripts can't get at, and in its nodes, under keys that no
   script can have, the place of its text and the page that keeps the text alive. Whatever reads or changes it opens it
   first, which decodes the text into the same table. The patches of lapi.c (build/patches.rs) do that for functions that ignore
   metamethods, such as next and rawget.

   The fields `_did`, `_rkey`, `_cid` and `_indexed_at` of a row are made when they are read. An opened row keeps what they
   are made of, its head, under such a key too: nothing that goes through a table's keys shows it. */

/* The parts of a row, as the host packed them: the head is the URI and the time and CID, then comes the record. */
typedef struct {
  const char *uri, *meta, *record;
  uint32_t uri_len, meta_len, record_len;
} RowText;

/* In the length of a packed record: its text begins with the quote of its first field, it ends with a brace, and it has no
   field `uri`, so that one can be added to the text. */
#define ROW_STAYS_TEXT 0x80000000u

/* Bytes of a CID. */
#define CID_BYTES 36

/* The metatables of rows, and of opened ones. Until they are made, no table has them. */
static Table row_none;
static Table *row_mark = &row_none, *row_opened_mark = &row_none;

static inline int is_row(const Table *t) { return t->metatable == row_mark; }

static inline uint32_t row_length(const char *at) {
  uint32_t n;
  memcpy(&n, at, sizeof n);
  return n;
}

/* The head that begins at `at`, without a record. */
static RowText row_read_head(const char *at) {
  RowText row = {.uri = at + sizeof(uint32_t), .uri_len = row_length(at)};
  at = row.uri + row.uri_len;
  row.meta = at + sizeof(uint32_t);
  row.meta_len = row_length(at);
  return row;
}

/* The row whose packed parts begin at `at`. */
static RowText row_read(const char *at) {
  RowText row = row_read_head(at);
  at = row.meta + row.meta_len;
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

/* Adds the head of a row to the table on the top of the stack, which is what the row was opened to. */
static void row_keep_head(lua_State *L, const RowText *row) {
  const char *head = row->uri - sizeof(uint32_t);
  lua_pushlightuserdata(L, &row_key);
  lua_pushlstring(L, head, (size_t)(row->meta + row->meta_len - head));
  lua_rawset(L, -3);
  Table *t = hvalue(s2v(L->top.p - 1));
  t->metatable = row_opened_mark;
  luaC_objbarrier(L, obj2gco(t), row_opened_mark);
}

static void push_cid(lua_State *L, const uint8_t *bytes, size_t n) {
  char text[2 + (CID_BYTES * 8 + 4) / 5], *out = text;
  uint32_t bits = 0;
  int count = 0;
  *out++ = 'b'; /* base32 in lower case */
  for (size_t i = 0; i < n && i < CID_BYTES; i++) {
    bits = bits << 8 | bytes[i];
    for (count += 8; count >= 5; count -= 5) *out++ = "abcdefghijklmnopqrstuvwxyz234567"[bits >> (count - 5) & 31];
  }
  if (count) *out++ = "abcdefghijklmnopqrstuvwxyz234567"[bits << (5 - count) & 31];
  lua_pushlstring(L, text, (size_t)(out - text));
}

/* Pushes microseconds since 1970 as RFC 3339 in UTC. */
static void push_time(lua_State *L, int64_t micros) {
  const int64_t day_micros = 86400000000;
  int64_t days = micros / day_micros, rest = micros % day_micros;
  if (rest < 0) days--, rest += day_micros;
  /* Years begin in March here, so that a leap day is the last of its year; an era has 400 years. */
  int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  int day = (int)(z - era * 146097), of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;
  int of_year = day - (365 * of_era + of_era / 4 - of_era / 100), month = (5 * of_year + 2) / 153;
  int year = (int)(of_era + era * 400) + (month >= 10), seconds = (int)(rest / 1000000);
  char text[48];
  int n = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", year, month < 10 ? month + 3 : month - 9,
                   of_year - (153 * month + 2) / 5 + 1, seconds / 3600, seconds / 60 % 60, seconds % 60, (int)(rest % 1000000));
  lua_pushlstring(L, text, (size_t)n);
}

/* The segment of a text that begins at `at`, up to a slash or the end. */
static void push_segment(lua_State *L, const char *at, const char *end) {
  const char *slash = memchr(at, '/', (size_t)(end - at));
  lua_pushlstring(L, at, (size_t)((slash ? slash : end) - at));
}

/* The names of the fields that a row has beside those of its record. */
static const char *const row_names[] = {"_cid", "_did", "_indexed_at", "_rkey"};
enum { ROW_CID, ROW_DID, ROW_INDEXED_AT, ROW_RKEY, ROW_NAMES };

/* The field with the name at the stack index 2; ROW_NAMES if that is none of them. */
static int row_field(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return ROW_NAMES;
  const char *name = lua_tostring(L, 2);
  int field = 0;
  while (*name == '_' && field < ROW_NAMES && strcmp(name, row_names[field]) != 0) field++;
  return *name == '_' ? field : ROW_NAMES;
}

static void push_row_field(lua_State *L, const RowText *row, int field) {
  const char *end = row->uri + row->uri_len, *at = end;
  switch (field) {
    case ROW_CID:
      if (row->meta_len > sizeof(int64_t)) push_cid(L, (const uint8_t *)row->meta + sizeof(int64_t), row->meta_len - sizeof(int64_t));
      else lua_pushnil(L);
      return;
    case ROW_INDEXED_AT: {
      int64_t micros;
      memcpy(&micros, row->meta, sizeof micros);
      push_time(L, micros);
      return;
    }
    default: {
      /* The last three segments of an address are the author, the collection and the key. */
      for (int slashes = field == ROW_DID ? 3 : 1; at > row->uri && (slashes -= at[-1] == '/') > 0;) at--;
      push_segment(L, at, end);
    }
  }
}

/* Whether the record may have a field with this name: it has the name somewhere, or an escape, which may be a part of it. */
static int row_may_have(const RowText *row, const char *name, size_t n) {
  const char *at = row->record, *end = at + row->record_len;
  if (memchr(at, '\\', row->record_len)) return 1;
  for (; (size_t)(end - at) >= n && (at = memchr(at, '_', (size_t)(end - at) - n + 1)); at++)
    if (memcmp(at, name, n) == 0) return 1;
  return 0;
}

/* A field of a row, opened or not. That of its record is before the one of its address. */
static int row_index(lua_State *L) {
  lua_settop(L, 2);
  Table *t = hvalue(index2value(L, 1));
  int field = row_field(L);
  if (field < ROW_NAMES && is_row(t)) {
    RowText row = row_text(t);
    if (!row_may_have(&row, row_names[field], strlen(row_names[field]))) {
      push_row_field(L, &row, field);
      return 1;
    }
  }
  lua_rawget(L, 1); /* opens the row */
  if (field < ROW_NAMES && lua_isnil(L, -1) && lua_rawgetp(L, 1, &row_key) == LUA_TSTRING) {
    RowText row = row_read_head(lua_tostring(L, -1));
    push_row_field(L, &row, field);
  }
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

static Table *row_metatable(lua_State *L, const luaL_Reg *methods) {
  lua_createtable(L, 0, 2); /* luaL_newmetatable would set a name, which appears in error messages */
  luaL_setfuncs(L, methods, 0);
  Table *made = hvalue(s2v(L->top.p - 1));
  luaL_ref(L, LUA_REGISTRYINDEX);
  return made;
}

static void rows_open(lua_State *L) {
  static const luaL_Reg methods[] = {{"__newindex", row_newindex}, {"__index", row_index}, {NULL, NULL}};
  row_mark = row_metatable(L, methods);
  row_opened_mark = row_metatable(L, methods + 1);
}
