/* Encodes Lua values as JSON text. Reads the VM's own representation: no metamethod runs, and nothing is pushed except
   the tables being encoded (which keeps them alive). */

typedef struct {
  lua_State *L;
  Buffer *out;
  const char *what; /* the name of the value in error messages */
  int depth; /* how many tables the value being encoded is in */
} Encoder;

enum {
  JSON_DEPTH = 127, /* nested arrays and objects */
  PATH_STEPS = 12, /* of the path in an error message */
  PATH_NAME = 60, /* bytes of a name in it */
};

/* Where the encoder is: for each table that it is in, the name or else the index of the value. Not reentrant, because
   encoding runs no Lua code. */
static struct {
  const TString *name; /* NULL for an array */
  lua_Unsigned index;
} json_path[JSON_DEPTH + 1];

/* json.null is a light userdata with this address. */
static char json_null;

/* The metatable that marks arrays, so that an empty one is encoded as []. Scripts can't get at it. */
#define ARRAY_METATABLE "belvedere.array"
static Table *json_array_mark;

/* The metatable of record objects, and a weak table that maps each object to a table of the fields that its JSON form
   has in addition to its own. */
#define RECORD_METATABLE "belvedere.record"
#define RECORD_SHOWN "belvedere.record.shown"
static Table *json_record_mark, *json_record_shown;

/* Whether a name can follow a dot, as in Lua. */
static int is_identifier(const char *name, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!(lislalpha((unsigned char)name[i]) || (i > 0 && lisdigit((unsigned char)name[i])))) return 0;
  return n > 0;
}

/* Writes the path of the value that is being encoded, like `.items[3].when`, with a NUL. Allocates nothing: a collection of
   garbage could run Lua code, and that could encode something else. */
static void write_path(const Encoder *e, char *out) {
  for (int i = 0; i < e->depth && i < PATH_STEPS; i++) {
    const TString *name = json_path[i].name;
    size_t n = name ? tsslen(name) : 0;
    size_t kept = n > PATH_NAME ? PATH_NAME : n;
    int dotted = name && is_identifier(getstr(name), n);
    out = stpcpy(out, dotted ? "." : name ? "[\"" : "[");
    if (name) {
      memcpy(out, getstr(name), kept);
      out = stpcpy(out + kept, kept < n ? "…" : "");
    } else {
      out += integer_text(out, (lua_Integer)json_path[i].index);
    }
    out = stpcpy(out, dotted ? "" : name ? "\"]" : "]");
  }
  strcpy(out, e->depth > PATH_STEPS ? "…" : "");
}

/* Raises an error about the value that is being encoded: its name and path, like `result.items[3].when`, and the message. */
static _Noreturn void json_raise(const Encoder *e, const char *format, ...) {
  char path[PATH_STEPS * (PATH_NAME + 8) + 4];
  write_path(e, path);
  va_list args;
  va_start(args, format);
  const char *message = lua_pushvfstring(e->L, format, args);
  va_end(args);
  raise(e->L, "%s%s: %s", e->what, path, message);
}

static void encode_integer(Encoder *e, lua_Integer value) {
  e->out->len += (size_t)integer_text(buffer_reserve(e->L, e->out, INTEGER_TEXT), value);
}

/* Writes a number with at most 9 decimals, like 12.5, as the digits of value * 10^n, provided that dividing those by
   10^n gives the value again; else returns 0. Avoids libc's formatting, which costs thousands of instructions. */
static int encode_decimals(Encoder *e, lua_Number value) {
  static const lua_Number powers[] = {10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  lua_Number size = fabs(value);
  for (int n = 1; n <= 9; n++) {
    lua_Number scaled = size * powers[n - 1];
    if (!(scaled < 9007199254740992.0)) return 0;
    lua_Unsigned digits = (lua_Unsigned)scaled;
    if ((lua_Number)digits != scaled || (lua_Number)digits / powers[n - 1] != size) continue;
    char text[24];
    int at = sizeof text;
    for (int i = 0; i < n; i++, digits /= 10) text[--at] = (char)('0' + digits % 10);
    text[--at] = '.';
    do text[--at] = (char)('0' + digits % 10);
    while (digits /= 10);
    if (value < 0) text[--at] = '-';
    buffer_put(e->L, e->out, text + at, sizeof text - (size_t)at);
    return 1;
  }
  return 0;
}

/* Writes integral values that a double represents exactly as integers, and others with the fewest digits (of 15, 16 or
   17) that parse to the same number. */
static void encode_float(Encoder *e, lua_Number value) {
  const lua_Number exact = 9007199254740992.0; /* 2^53 */
  if (!isfinite(value)) json_raise(e, "%s is not a JSON number", value != value ? "nan" : "infinity");
  if (value >= -exact && value <= exact && value == (lua_Number)(lua_Integer)value) {
    encode_integer(e, (lua_Integer)value);
    return;
  }
  if (encode_decimals(e, value)) return;
  char text[40];
  int n = 0;
  for (int digits = 15; digits <= 17; digits++) {
    n = snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  buffer_put(e->L, e->out, text, (size_t)n);
}

static void encode_escape(Encoder *e, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
  size_t n = 2;
  switch (c) {
    case '"': text[1] = '"'; break;
    case '\\': text[1] = '\\'; break;
    case '\b': text[1] = 'b'; break;
    case '\f': text[1] = 'f'; break;
    case '\n': text[1] = 'n'; break;
    case '\r': text[1] = 'r'; break;
    case '\t': text[1] = 't'; break;
    default: n = 6;
  }
  buffer_put(e->L, e->out, text, n);
}

static void encode_text(Encoder *e, const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *plain = p;
  const unsigned char *end = p + n;
  buffer_putc(e->L, e->out, '"');
  while ((p = text_plain(p, end, 1)) < end) {
    if (*p >= 0x80) {
      size_t length = utf8_length(p, end);
      if (!length) json_raise(e, "a string is not valid UTF-8");
      p += length;
    } else {
      buffer_put(e->L, e->out, (const char *)plain, (size_t)(p - plain));
      encode_escape(e, *p);
      plain = ++p;
    }
  }
  buffer_put(e->L, e->out, (const char *)plain, (size_t)(p - plain));
  buffer_putc(e->L, e->out, '"');
}

static void encode_string(Encoder *e, const TString *s) { encode_text(e, getstr(s), tsslen(s)); }

/* The keys of a table: the number of string keys, the number of integer keys, and the greatest integer key. */
typedef struct {
  size_t names;
  lua_Unsigned indices, last;
} Census;

static Census table_census(Encoder *e, Table *t) {
  Census census = {0};
  unsigned array = luaH_realasize(t);
  for (unsigned i = 0; i < array; i++) {
    if (!isempty(&t->array[i])) {
      census.indices++;
      census.last = i + 1;
    }
  }
  for (unsigned i = 0, n = sizenode(t); i < n; i++) {
    Node *node = gnode(t, i);
    if (isempty(gval(node)) || row_hides(node)) continue;
    if (keyisinteger(node)) {
      lua_Integer key = keyival(node);
      if (key < 1) json_raise(e, "a table with the key %I is neither an array nor an object", key);
      census.indices++;
      if ((lua_Unsigned)key > census.last) census.last = (lua_Unsigned)key;
    } else if (novariant(keytt(node)) == LUA_TSTRING) {
      census.names++;
    } else {
      json_raise(e, "a table has a %s as a key", ttypename(novariant(keytt(node))));
    }
  }
  return census;
}

static void encode_value(Encoder *e, const TValue *value, int depth);

static void encode_array(Encoder *e, Table *t, lua_Unsigned length, int depth) {
  buffer_putc(e->L, e->out, '[');
  json_path[depth - 1].name = NULL;
  for (lua_Unsigned i = 1; i <= length; i++) {
    if (i > 1) buffer_putc(e->L, e->out, ',');
    json_path[depth - 1].index = i;
    encode_value(e, luaH_getint(t, (lua_Integer)i), depth);
  }
  buffer_putc(e->L, e->out, ']');
}

/* Writes the fields of `t` that are not in `except`, which may be NULL. */
static void encode_members(Encoder *e, Table *t, Table *except, int depth, int *first) {
  for (unsigned i = 0, n = sizenode(t); i < n; i++) {
    Node *node = gnode(t, i);
    if (isempty(gval(node)) || row_hides(node)) continue;
    TString *name = gco2ts(gckey(node));
    if (except && !isempty(luaH_getstr(except, name))) continue;
    if (!*first) buffer_putc(e->L, e->out, ',');
    *first = 0;
    json_path[depth - 1].name = name;
    e->depth = depth;
    encode_string(e, name);
    buffer_putc(e->L, e->out, ':');
    encode_value(e, gval(node), depth);
  }
}

static void encode_object(Encoder *e, Table *t, int depth) {
  int first = 1;
  buffer_putc(e->L, e->out, '{');
  encode_members(e, t, NULL, depth, &first);
  buffer_putc(e->L, e->out, '}');
}

/* A record object is encoded as its fields and those in `json_record_shown`, such as its URI. */
static void encode_record(Encoder *e, Table *t, int depth) {
  TValue key;
  sethvalue(e->L, &key, t);
  const TValue *found = luaH_get(json_record_shown, &key);
  Table *shown = ttistable(found) ? hvalue(found) : NULL;
  int first = 1;
  buffer_putc(e->L, e->out, '{');
  encode_members(e, t, shown, depth, &first);
  if (shown) encode_members(e, shown, NULL, depth, &first);
  buffer_putc(e->L, e->out, '}');
}

/* A row that was never opened: its text, with the URI as the last field. */
static void encode_row(Encoder *e, const Table *t) {
  RowText row = row_text(t);
  buffer_put(e->L, e->out, row.record, row.record_len - 1);
  buffer_literal(e->L, e->out, ",\"uri\":");
  encode_text(e, row.uri, row.uri_len);
  buffer_putc(e->L, e->out, '}');
}

static void encode_table(Encoder *e, Table *t, int depth) {
  lua_State *L = e->L;
  if (depth > JSON_DEPTH) json_raise(e, "nested more than %d levels deep", JSON_DEPTH);
  if (is_row(t)) {
    encode_row(e, t);
    return;
  }
  sethvalue2s(L, L->top.p, t); /* keeps it alive while its fields are written; json_encode checked the stack space */
  L->top.p++;
  Census census = table_census(e, t);
  int marked = t->metatable == json_array_mark, record = t->metatable == json_record_mark;
  if ((census.names || record) && (census.indices || marked)) json_raise(e, "a table mixes an array with named fields");
  if (census.indices) {
    /* Holes are written as null if Lua's # covers the last index or if at least half of the indices are present. */
    if (census.last > 2 * census.indices && census.last > luaH_getn(t))
      json_raise(e, "an array has a value at %I but only %I in all", (lua_Integer)census.last, (lua_Integer)census.indices);
    encode_array(e, t, census.last, depth);
  } else if (marked) {
    buffer_literal(L, e->out, "[]");
  } else if (record) {
    encode_record(e, t, depth);
  } else {
    encode_object(e, t, depth);
  }
  L->top.p--;
}

static void encode_value(Encoder *e, const TValue *value, int depth) {
  e->depth = depth;
  switch (ttypetag(value)) {
    case LUA_VFALSE: buffer_literal(e->L, e->out, "false"); return;
    case LUA_VTRUE: buffer_literal(e->L, e->out, "true"); return;
    case LUA_VNUMINT: encode_integer(e, ivalue(value)); return;
    case LUA_VNUMFLT: encode_float(e, fltvalue(value)); return;
    case LUA_VSHRSTR:
    case LUA_VLNGSTR: encode_string(e, tsvalue(value)); return;
    case LUA_VTABLE: encode_table(e, hvalue(value), depth + 1); return;
    default:
      if (ttisnil(value) || (ttislightuserdata(value) && pvalue(value) == &json_null)) {
        buffer_literal(e->L, e->out, "null");
        return;
      }
      json_raise(e, "a %s can't be JSON", luaT_typenames_[ttype(value) + 1]);
  }
}

/* Appends the value at `index` to `out`. */
static void json_encode(lua_State *L, int index, Buffer *out, const char *what) {
  Encoder e = {L, out, what, 0};
  luaL_checkstack(L, JSON_DEPTH + 8, what);
  encode_value(&e, index2value(L, index), 0);
}
