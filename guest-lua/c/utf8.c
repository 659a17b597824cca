/* Scans text and validates UTF-8, eight bytes at a time. */
typedef uint64_t text_word __attribute__((aligned(1), may_alias));

#define EACH_BYTE 0x0101010101010101ull
#define EACH_HIGH 0x8080808080808080ull

/* Sets the highest bit of each byte of a word that ends a plain run in a JSON string: control characters, the quote and
   the backslash. Only the lowest marked byte is reliable; bytes above it may be marked wrongly. */
static inline uint64_t text_special(uint64_t word) {
  uint64_t quote = word ^ EACH_BYTE * '"', backslash = word ^ EACH_BYTE * '\\';
  uint64_t control = (word - EACH_BYTE * 0x20) & ~word;
  return (control | ((quote - EACH_BYTE) & ~quote) | ((backslash - EACH_BYTE) & ~backslash)) & EACH_HIGH;
}

/* The end of the plain run at `p`: the first byte that is special or, with `ascii`, not ASCII. */
static inline const unsigned char *text_plain(const unsigned char *p, const unsigned char *end, int ascii) {
  while (end - p >= 8) {
    uint64_t word = *(const text_word *)p;
    uint64_t stop = text_special(word) | (ascii ? word & EACH_HIGH : 0);
    if (stop) return p + (__builtin_ctzll(stop) >> 3);
    p += 8;
  }
  while (p < end && *p >= 0x20 && *p != '"' && *p != '\\' && !(ascii && *p >= 0x80)) p++;
  return p;
}

/* UTF-8: the length of the character at `p`, whose first byte is not ASCII; 0 when it is malformed, overlong, a
   surrogate or out of range. */
static size_t utf8_length(const unsigned char *p, const unsigned char *end) {
  size_t left = (size_t)(end - p);
#define CONTINUES(i) ((p[i] & 0xc0) == 0x80)
  if (p[0] < 0xc2) return 0;
  if (p[0] < 0xe0) return left >= 2 && CONTINUES(1) ? 2 : 0;
  if (p[0] < 0xf0) {
    if (left < 3 || !CONTINUES(1) || !CONTINUES(2)) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] >= 0xa0) return 0;
    return 3;
  }
  if (p[0] > 0xf4 || left < 4 || !CONTINUES(1) || !CONTINUES(2) || !CONTINUES(3)) return 0;
  if (p[0] == 0xf0 && p[1] < 0x90) return 0;
  if (p[0] == 0xf4 && p[1] >= 0x90) return 0;
  return 4;
#undef CONTINUES
}

static int utf8_valid(const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  while (p < end) {
    if (end - p >= 8 && !(*(const text_word *)p & EACH_HIGH)) {
      p += 8;
      continue;
    }
    if (*p < 0x80) {
      p++;
      continue;
    }
    size_t length = utf8_length(p, end);
    if (!length) return 0;
    p += length;
  }
  return 1;
}
