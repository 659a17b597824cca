/* A growing byte buffer in Lua's memory: it counts against the memory cap, and exceeding the cap raises Lua's own
   memory error. A static buffer that is reused across calls need not be freed when an error unwinds past it. */

typedef struct {
  char *data;
  size_t len, capacity;
} Buffer;

/* Larger than any size class, so that a finished buffer is a plain malloc block and can be given to the host. */
enum { BUFFER_MIN = 1024 };

static void buffer_grow(lua_State *L, Buffer *b, size_t more) {
  size_t capacity = b->capacity ? b->capacity : BUFFER_MIN;
  while (capacity - b->len < more) capacity *= 2; /* the memory cap is hit long before this overflows */
  b->data = luaM_saferealloc_(L, b->data, b->capacity, capacity);
  b->capacity = capacity;
}

static inline char *buffer_reserve(lua_State *L, Buffer *b, size_t more) {
  if (l_unlikely(b->capacity - b->len < more)) buffer_grow(L, b, more);
  return b->data + b->len;
}

static inline void buffer_put(lua_State *L, Buffer *b, const char *bytes, size_t n) {
  memcpy(buffer_reserve(L, b, n), bytes, n);
  b->len += n;
}

static inline void buffer_putc(lua_State *L, Buffer *b, char c) {
  *buffer_reserve(L, b, 1) = c;
  b->len++;
}

#define buffer_literal(L, b, text) buffer_put(L, b, "" text, sizeof(text) - 1)

/* Gives ownership of the bytes to the component bindings, which free them after the host has read them. */
static void buffer_release(Buffer *b, uint8_t **data, size_t *len) {
  *data = (uint8_t *)b->data;
  *len = b->len;
  memory_used -= b->capacity;
  *b = (Buffer){0};
}
