/* Overrides of Lua's own luaconf.h. Included right after it, before the rest of Lua. */
#ifndef BELVEDERE_CONFIG_H
#define BELVEDERE_CONFIG_H

#include <string.h>

/* Chunk names are trigger ids. Lua's default would cut them short, and they often differ only at the end. */
#undef LUA_IDSIZE
#define LUA_IDSIZE 360

enum { INTEGER_TEXT = 21 }; /* -9223372036854775808 and a NUL */

/* Writes a number in decimal with a terminating NUL and returns its length. libc's formatting takes thousands of
   instructions. */
static inline int integer_text(char *out, LUA_INTEGER value) {
  char digits[INTEGER_TEXT];
  int at = sizeof digits;
  LUA_UNSIGNED left = value < 0 ? 0u - (LUA_UNSIGNED)value : (LUA_UNSIGNED)value;
  digits[--at] = '\0';
  do digits[--at] = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) digits[--at] = '-';
  memcpy(out, digits + at, sizeof digits - (size_t)at);
  return (int)sizeof digits - at - 1;
}

#undef lua_integer2str
#define lua_integer2str(out, size, value) integer_text(out, value)

#endif
