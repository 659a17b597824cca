/* Converts between Lua values and the contract's types; the generated glue (glue.c) calls these functions. `what` names
   the argument in error messages. Arguments stay on the Lua stack during a call, so their bytes are borrowed. */

static _Noreturn void wrong_type(lua_State *L, int index, const char *what, const char *expected) {
  raise(L, "%s: %s expected, got %s", what, expected, luaL_typename(L, index));
}

/* Takes a string of any bytes. Numbers are converted to strings, as everywhere in Lua. */
static void take_bytes(lua_State *L, int index, const char *what, uint8_t **data, size_t *len) {
  if (!lua_isstring(L, index)) wrong_type(L, index, what, "string");
  *data = (uint8_t *)lua_tolstring(L, index, len);
}

static void take_string(lua_State *L, int index, const char *what, guest_string_t *out) {
  take_bytes(L, index, what, &out->ptr, &out->len);
  if (!utf8_valid((const char *)out->ptr, out->len)) raise(L, "%s: not valid UTF-8", what);
}

static lua_Integer take_integer(lua_State *L, int index, const char *what) {
  int exact;
  lua_Integer value = lua_tointegerx(L, index, &exact);
  if (!exact) wrong_type(L, index, what, "integer");
  return value;
}

static lua_Integer take_bounded(lua_State *L, int index, const char *what, lua_Integer most) {
  lua_Integer value = take_integer(L, index, what);
  if (value < 0 || value > most) raise(L, "%s: out of range", what);
  return value;
}

static lua_Number take_number(lua_State *L, int index, const char *what) {
  int ok;
  lua_Number value = lua_tonumberx(L, index, &ok);
  if (!ok) wrong_type(L, index, what, "number");
  return value;
}

static void take_table(lua_State *L, int index, const char *what) {
  if (!lua_istable(L, index)) wrong_type(L, index, what, "table");
}

/* Pushes table[name] without running metamethods of the script's table. */
static void take_field(lua_State *L, int table, const char *name) {
  lua_pushstring(L, name);
  lua_rawget(L, table);
}

static int take_enum(lua_State *L, int index, const char *what, const char *const names[]) {
  if (lua_type(L, index) == LUA_TSTRING) {
    const char *given = lua_tostring(L, index);
    for (int i = 0; names[i]; i++)
      if (strcmp(names[i], given) == 0) return i;
  }
  raise(L, "%s: unknown value", what);
}

static Buffer json_scratch;

/* Replaces the value at `index` with its JSON text and borrows that. */
static void take_json(lua_State *L, int index, const char *what, uint8_t **data, size_t *len) {
  json_scratch.len = 0;
  json_encode(L, index, &json_scratch, what);
  lua_pushlstring(L, json_scratch.data, json_scratch.len);
  lua_replace(L, index);
  take_bytes(L, index, what, data, len);
}

static void push_bytes(lua_State *L, const uint8_t *data, size_t len) { lua_pushlstring(L, len ? (const char *)data : "", len); }

static void push_json(lua_State *L, const uint8_t *data, size_t len, const char *what) {
  json_decode(L, (const char *)data, len, 1, what);
}

/* The end of the length-prefixed part that begins at `at`. */
static const char *part_end(lua_State *L, const char *at, const char *end) {
  size_t left = (size_t)(end - at), n;
  if (left < sizeof(uint32_t) || left - sizeof(uint32_t) < (n = row_length(at) & ~ROW_STAYS_TEXT)) raise(L, "a row is cut short");
  return at + sizeof(uint32_t) + n;
}

/* Converts packed rows to an array of records. Their texts are copied to a userdata, the page. */
static void push_rows(lua_State *L, const uint8_t *data, size_t len, const char *what) {
  luaL_checkstack(L, 8, what);
  lua_createtable(L, len ? 20 : 0, 0);
  mark_array(L);
  if (len == 0) return;
  char *at = lua_newuserdatauv(L, len, 0), *end = at + len;
  memcpy(at, data, len);
  int page = lua_gettop(L);
  for (lua_Integer i = 1; at < end; i++) {
    const char *record = part_end(L, part_end(L, at, end), end);
    const char *next = part_end(L, record, end);
    if (row_length(record) & ROW_STAYS_TEXT) {
      push_row(L, page, at);
    } else {
      RowText row = row_read(at);
      decode_row(L, &row, what);
    }
    lua_rawseti(L, page - 1, i);
    at = (char *)next;
  }
  lua_pop(L, 1);
}
