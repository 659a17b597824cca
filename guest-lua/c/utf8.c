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
