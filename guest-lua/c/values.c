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

/* One length-prefixed part of packed rows. */
static const char *next_part(lua_State *L, const uint8_t **at, const uint8_t *end, size_t *len) {
  uint32_t n;
  if ((size_t)(end - *at) < sizeof n) raise(L, "a row is cut short");
  memcpy(&n, *at, sizeof n);
  *at += sizeof n;
  if ((size_t)(end - *at) < n) raise(L, "a row is cut short");
  const char *part = (const char *)*at;
  *at += n;
  *len = n;
  return part;
}

/* Converts packed rows to an array of records. `uri` is set on each, overwriting a field of that name. */
static void push_rows(lua_State *L, const uint8_t *data, size_t len, const char *what) {
  const uint8_t *at = data, *end = data + len;
  luaL_checkstack(L, 8, what);
  decode_begin();
  lua_createtable(L, len ? 20 : 0, 0);
  for (lua_Integer i = 1; at < end; i++) {
    size_t uri_len, record_len;
    const char *uri = next_part(L, &at, end, &uri_len);
    const char *record = next_part(L, &at, end, &record_len);
    decode_text(L, record, record_len, 1, 1, what);
    if (!lua_istable(L, -1)) raise(L, "%s: a stored record is no object", what);
    lua_pushliteral(L, "uri");
    lua_pushlstring(L, uri, uri_len);
    lua_rawset(L, -3);
    lua_rawseti(L, -2, i);
  }
  mark_array(L);
}
