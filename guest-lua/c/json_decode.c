/* Decodes JSON text to Lua values. Children are collected on the Lua stack first, so that a table is allocated once, in
   its final size. */

typedef struct {
  lua_State *L;
  const char *start, *at, *end;
  const char *what; /* prefix of error messages */
  int spare;        /* slots to reserve in the outermost object for fields that are added later */
} Decoder;

static Buffer decode_scratch; /* strings with escapes, and numbers for strtod */

enum {
  BATCH = 16, /* children collected before a table is allocated; records seldom have more fields */
};

static _Noreturn void decode_fail(Decoder *d, const char *problem) {
  raise(d->L, "%s: %s at byte %d", d->what, problem, (int)(d->at - d->start) + 1);
}

static inline int decode_space(Decoder *d) {
  while (d->at < d->end && (*d->at == ' ' || *d->at == '\n' || *d->at == '\r' || *d->at == '\t')) d->at++;
  return d->at < d->end ? (unsigned char)*d->at : -1;
}

static unsigned decode_hex4(Decoder *d) {
  unsigned value = 0;
  if (d->end - d->at < 4) decode_fail(d, "unfinished escape");
  for (int i = 0; i < 4; i++, d->at++) {
    unsigned char c = (unsigned char)*d->at, digit;
    if (c >= '0' && c <= '9') digit = c - '0';
    else if ((c | 32) >= 'a' && (c | 32) <= 'f') digit = (c | 32) - 'a' + 10;
    else decode_fail(d, "bad escape");
    value = value << 4 | digit;
  }
  return value;
}

static void decode_unicode(Decoder *d) {
  lua_State *L = d->L;
  unsigned c = decode_hex4(d);
  if (c >= 0xdc00 && c < 0xe000) decode_fail(d, "lone surrogate");
  if (c >= 0xd800 && c < 0xdc00) {
    if (d->end - d->at < 2 || d->at[0] != '\\' || d->at[1] != 'u') decode_fail(d, "lone surrogate");
    d->at += 2;
    unsigned low = decode_hex4(d);
    if (low < 0xdc00 || low >= 0xe000) decode_fail(d, "lone surrogate");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  char text[4];
  size_t n;
  if (c < 0x80) {
    text[0] = (char)c, n = 1;
  } else if (c < 0x800) {
    text[0] = (char)(0xc0 | c >> 6), text[1] = (char)(0x80 | (c & 63)), n = 2;
  } else if (c < 0x10000) {
    text[0] = (char)(0xe0 | c >> 12), text[1] = (char)(0x80 | (c >> 6 & 63)), text[2] = (char)(0x80 | (c & 63)), n = 3;
  } else {
    text[0] = (char)(0xf0 | c >> 18), text[1] = (char)(0x80 | (c >> 12 & 63));
    text[2] = (char)(0x80 | (c >> 6 & 63)), text[3] = (char)(0x80 | (c & 63)), n = 4;
  }
  buffer_put(L, &decode_scratch, text, n);
}

/* Advances to the end of the plain run that begins at `d->at` and returns the byte there, 0 at the end of the text. */
static inline unsigned char decode_plain(Decoder *d) {
  d->at = (const char *)text_plain((const unsigned char *)d->at, (const unsigned char *)d->end, 0);
  return d->at < d->end ? (unsigned char)*d->at : 0;
}

/* Decodes a string with escapes: `plain` is its first byte, `d->at` its first backslash. */
static void decode_escaped(Decoder *d, const char *plain) {
  lua_State *L = d->L;
  decode_scratch.len = 0;
  for (;;) {
    unsigned char c = decode_plain(d);
    if (d->at >= d->end) decode_fail(d, "unfinished string");
    if (c < 0x20) decode_fail(d, "control character in a string");
    buffer_put(L, &decode_scratch, plain, (size_t)(d->at - plain));
    d->at++;
    if (c == '"') break;
    if (d->at >= d->end) decode_fail(d, "unfinished string");
    char e = *d->at++;
    switch (e) {
      case '"': case '\\': case '/': buffer_putc(L, &decode_scratch, e); break;
      case 'b': buffer_putc(L, &decode_scratch, '\b'); break;
      case 'f': buffer_putc(L, &decode_scratch, '\f'); break;
      case 'n': buffer_putc(L, &decode_scratch, '\n'); break;
      case 'r': buffer_putc(L, &decode_scratch, '\r'); break;
      case 't': buffer_putc(L, &decode_scratch, '\t'); break;
      case 'u': decode_unicode(d); break;
      default: d->at--; decode_fail(d, "bad escape");
    }
    plain = d->at;
  }
  lua_pushlstring(L, decode_scratch.data ? decode_scratch.data : "", decode_scratch.len);
}

static void decode_string(Decoder *d) {
  const char *start = ++d->at;
  unsigned char c = decode_plain(d);
  if (l_likely(c == '"')) lua_pushlstring(d->L, start, (size_t)(d->at++ - start));
  else if (c == '\\') decode_escaped(d, start);
  else decode_fail(d, d->at < d->end ? "control character in a string" : "unfinished string");
}

/* A cache of field names. The records of a page have the same ones, and a lookup here is cheaper than hashing. */
enum { NAMES = 64 };
static TString *decode_names[NAMES];

/* The collector calls this before it frees strings (build/patches.rs), as it clears Lua's own cache of strings. */
static void decode_forget(void) { memset(decode_names, 0, sizeof decode_names); }

static void decode_name(Decoder *d) {
  lua_State *L = d->L;
  const char *start = d->at + 1;
  d->at++;
  if (l_unlikely(decode_plain(d) != '"' || d->at == start)) {
    d->at = start - 1;
    decode_string(d);
    return;
  }
  size_t n = (size_t)(d->at++ - start);
  TString **place = &decode_names[(n + 5 * (unsigned char)start[0] + 11 * (unsigned char)start[n - 1]) % NAMES];
  if (*place && tsslen(*place) == n && memcmp(getstr(*place), start, n) == 0) {
    setsvalue2s(L, L->top.p, *place);
    L->top.p++;
  } else {
    lua_pushlstring(L, start, n);
    *place = tsvalue(s2v(L->top.p - 1));
  }
}

static inline int is_digit(Decoder *d) { return d->at < d->end && *d->at >= '0' && *d->at <= '9'; }

static void decode_number(Decoder *d) {
  static const double power10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *start = d->at;
  int negative = *d->at == '-', fits = 1, integral = 1, scale = 0;
  lua_Unsigned digits = 0;
  if (negative) d->at++;
  if (!is_digit(d)) decode_fail(d, "bad number");
  if (*d->at == '0' && d->at + 1 < d->end && d->at[1] >= '0' && d->at[1] <= '9') decode_fail(d, "bad number");
#define DIGITS(each)                                          \
  for (; is_digit(d); d->at++) {                              \
    lua_Unsigned digit = (lua_Unsigned)(*d->at - '0');        \
    if (digits > (ULLONG_MAX - digit) / 10) fits = 0;         \
    else digits = digits * 10 + digit;                        \
    each;                                                     \
  }
  DIGITS((void)0)
  if (d->at < d->end && *d->at == '.') {
    integral = 0;
    d->at++;
    if (!is_digit(d)) decode_fail(d, "bad number");
    DIGITS(scale--)
  }
#undef DIGITS
  if (d->at < d->end && (*d->at | 32) == 'e') {
    integral = 0;
    d->at++;
    int down = 0, exponent = 0;
    if (d->at < d->end && (*d->at == '+' || *d->at == '-')) down = *d->at++ == '-';
    if (!is_digit(d)) decode_fail(d, "bad number");
    for (; is_digit(d); d->at++)
      if (exponent < 100000) exponent = exponent * 10 + (*d->at - '0');
    scale += down ? -exponent : exponent;
  }
  if (integral && fits && digits <= (lua_Unsigned)LLONG_MAX + (lua_Unsigned)negative) {
    lua_pushinteger(d->L, (lua_Integer)(negative ? 0u - digits : digits));
    return;
  }
  double value;
  if (fits && digits <= (1ull << 53) && scale >= -22 && scale <= 22) { /* both are exact, so the result is rounded once */
    value = scale < 0 ? (double)digits / power10[-scale] : (double)digits * power10[scale];
    if (negative) value = -value;
  } else {
    decode_scratch.len = 0;
    buffer_put(d->L, &decode_scratch, start, (size_t)(d->at - start));
    buffer_putc(d->L, &decode_scratch, '\0');
    value = strtod(decode_scratch.data, NULL);
    if (!isfinite(value)) {
      d->at = start;
      decode_fail(d, "number out of range");
    }
  }
  lua_pushnumber(d->L, value);
}

static void decode_word(Decoder *d, const char *word, size_t n) {
  if ((size_t)(d->end - d->at) < n || memcmp(d->at, word, n) != 0) decode_fail(d, "unexpected character");
  d->at += n;
}

static void decode_value(Decoder *d, int depth);

/* Replaces the `n` keys and values above `base` by an object that holds them. */
static void gather_object(lua_State *L, int base, int n, int capacity) {
  StkId first = L->ci->func.p + 1 + base;
  Table *t = luaH_new(L);
  sethvalue2s(L, L->top.p, t);
  L->top.p++;
  if (capacity) luaH_resize(L, t, 0, (unsigned)capacity);
  for (int i = 0; i < n; i++) {
    const TValue *key = s2v(first + 2 * i);
    TValue *value = s2v(first + 2 * i + 1);
    luaH_finishset(L, t, key, luaH_getstr(t, tsvalue(key)), value);
    luaC_barrierback(L, obj2gco(t), value);
  }
  invalidateTMcache(t); /* a script may use it as a metatable */
  sethvalue2s(L, first, t);
  L->top.p = first + 1;
}

static void decode_object(Decoder *d, int depth) {
  lua_State *L = d->L;
  int base = lua_gettop(L), n = 0, made = 0, spare = depth == 1 ? d->spare : 0;
  d->at++;
  int c = decode_space(d);
  if (c == '}') {
    d->at++;
    lua_createtable(L, 0, spare);
    return;
  }
  for (;;) {
    if (c != '"') decode_fail(d, c < 0 ? "unfinished object" : "expected a name");
    decode_name(d);
    if (decode_space(d) != ':') decode_fail(d, "expected ':'");
    d->at++;
    decode_value(d, depth);
    if (made) {
      lua_rawset(L, -3);
    } else if (++n == BATCH) {
      gather_object(L, base, n, 2 * BATCH);
      made = 1;
    }
    c = decode_space(d);
    if (c == '}') break;
    if (c != ',') decode_fail(d, c < 0 ? "unfinished object" : "expected ',' or '}'");
    d->at++;
    c = decode_space(d);
  }
  d->at++;
  if (!made) gather_object(L, base, n, n + spare);
}

/* Replaces the `n` values above `base` by an array that holds them. */
static void gather_array(lua_State *L, int base, int n, int capacity) {
  StkId first = L->ci->func.p + 1 + base;
  Table *t = luaH_new(L);
  sethvalue2s(L, L->top.p, t);
  L->top.p++;
  luaH_resize(L, t, (unsigned)capacity, 0);
  for (int i = 0; i < n; i++) {
    setobj2t(L, &t->array[i], s2v(first + i));
    luaC_barrierback(L, obj2gco(t), s2v(first + i));
  }
  sethvalue2s(L, first, t);
  L->top.p = first + 1;
}

/* Marks the table on top as an array. */
static void mark_array(lua_State *L) {
  hvalue(s2v(L->top.p - 1))->metatable = json_array_mark; /* the mark is old and anchored: no barrier is needed */
  luaC_objbarrier(L, gcvalue(s2v(L->top.p - 1)), json_array_mark);
}

static void decode_array(Decoder *d, int depth) {
  lua_State *L = d->L;
  int base = lua_gettop(L), made = 0;
  lua_Integer n = 0;
  d->at++;
  if (decode_space(d) == ']') {
    d->at++;
    lua_createtable(L, 0, 0);
    mark_array(L);
    return;
  }
  for (;;) {
    decode_value(d, depth);
    n++;
    if (made) {
      lua_rawseti(L, -2, n);
    } else if (n == BATCH) {
      gather_array(L, base, BATCH, 2 * BATCH);
      made = 1;
    }
    int c = decode_space(d);
    if (c == ']') break;
    if (c != ',') decode_fail(d, c < 0 ? "unfinished array" : "expected ',' or ']'");
    d->at++;
  }
  d->at++;
  if (!made) gather_array(L, base, (int)n, (int)n);
  mark_array(L);
}

/* Decodes and pushes the value at `d->at`, which is nested in `depth` arrays and objects. */
static void decode_value(Decoder *d, int depth) {
  lua_State *L = d->L;
  int c = decode_space(d);
  switch (c) {
    case '"': decode_string(d); return;
    case '{':
    case '[':
      if (depth >= JSON_DEPTH) decode_fail(d, "nested too deeply");
      luaL_checkstack(L, 2 * BATCH + 8, d->what);
      if (c == '{') decode_object(d, depth + 1);
      else decode_array(d, depth + 1);
      return;
    case 't': decode_word(d, "true", 4); lua_pushboolean(L, 1); return;
    case 'f': decode_word(d, "false", 5); lua_pushboolean(L, 0); return;
    case 'n': decode_word(d, "null", 4); lua_pushlightuserdata(L, &json_null); return;
    case -1: decode_fail(d, "unexpected end");
    default:
      if (c == '-' || (c >= '0' && c <= '9')) decode_number(d);
      else decode_fail(d, "unexpected character");
  }
}

/* Decodes `text` and pushes its value. */
static void decode_text(lua_State *L, const char *text, size_t n, int spare, int trusted, const char *what) {
  Decoder d = {L, text, text, text + n, what, spare};
  luaL_checkstack(L, 8, what);
  if (!trusted && !utf8_valid(text, n)) raise(L, "%s: not valid UTF-8", what);
  decode_value(&d, 0);
  if (decode_space(&d) >= 0) decode_fail(&d, "trailing characters");
}

/* `trusted` text comes from the host and is known to be UTF-8. */
static void json_decode(lua_State *L, const char *text, size_t n, int trusted, const char *what) {
  decode_text(L, text, n, 0, trusted, what);
}

/* Decodes a row and pushes the table: the record's fields, and `uri`, which replaces a field of that name. There is room for
   both that and the head. */
static void decode_row(lua_State *L, const RowText *row, const char *what) {
  decode_text(L, row->record, row->record_len, 2, 1, what);
  if (!lua_istable(L, -1)) raise(L, "%s: a stored record is no object", what);
  lua_pushliteral(L, "uri");
  lua_pushlstring(L, row->uri, row->uri_len);
  lua_rawset(L, -3);
  row_keep_head(L, row);
}

/* Makes a row an ordinary table. Functions of lapi.c call this for every table that they read or change without
   metamethods. Runs no Lua code, except finalizers. */
static void row_decode(lua_State *L, Table *t) {
  RowText row = row_text(t);
  luaL_checkstack(L, 8, "record");
  setobj2s(L, L->top.p, gval(gnode(t, 1))); /* keeps the page alive */
  L->top.p++;
  decode_row(L, &row, "record");
  if (is_row(t)) { /* a finalizer may have opened it meanwhile */
    exchangehashpart(t, hvalue(s2v(L->top.p - 1)));
    t->metatable = row_opened_mark;
    invalidateTMcache(t);
    if (isblack(obj2gco(t))) luaC_barrierback_(L, obj2gco(t));
  }
  lua_pop(L, 2);
}

static Table *row_opened(lua_State *L, Table *t) {
  if (l_unlikely(is_row(t))) row_decode(L, t);
  return t;
}

/* Lua's functions pass over this metatable, as if an opened row had none. */
static Table *row_opened_metatable(void) { return row_opened_mark; }
