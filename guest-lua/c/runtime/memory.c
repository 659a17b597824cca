/* memcpy, memmove, memset and memcmp. In wasmtime a bulk-memory instruction is a call out of compiled code, so only
   blocks of BULK_MIN bytes and more use one. Compiled with -fno-builtin. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t word64 __attribute__((aligned(1), may_alias));
typedef uint32_t word32 __attribute__((aligned(1), may_alias));
typedef uint16_t word16 __attribute__((aligned(1), may_alias));

enum { BULK_MIN = 256 };

static inline void copy_short(unsigned char *to, const unsigned char *from, size_t n) {
  if (n >= 8) {
    word64 last = *(const word64 *)(from + n - 8);
    for (size_t i = 0; i + 8 < n; i += 8) *(word64 *)(to + i) = *(const word64 *)(from + i);
    *(word64 *)(to + n - 8) = last;
  } else if (n >= 4) {
    uint32_t first = *(const word32 *)from, last = *(const word32 *)(from + n - 4);
    *(word32 *)to = first;
    *(word32 *)(to + n - 4) = last;
  } else if (n >= 2) {
    uint16_t first = *(const word16 *)from, last = *(const word16 *)(from + n - 2);
    *(word16 *)to = first;
    *(word16 *)(to + n - 2) = last;
  } else if (n) {
    *to = *from;
  }
}

static inline void copy_bulk(void *to, const void *from, size_t n) {
  __asm__ volatile("local.get %0\nlocal.get %1\nlocal.get %2\nmemory.copy 0, 0" : : "r"(to), "r"(from), "r"(n) : "memory");
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  if (n < BULK_MIN) copy_short(to, from, n);
  else copy_bulk(to, from, n);
  return to;
}

void *memmove(void *to, const void *from, size_t n) {
  int apart = (uintptr_t)to + n <= (uintptr_t)from || (uintptr_t)from + n <= (uintptr_t)to;
  if (n < 8 || (n < BULK_MIN && apart)) copy_short(to, from, n); /* below 8 bytes copy_short reads everything before it writes */
  else copy_bulk(to, from, n);
  return to;
}

void *memset(void *to, int byte, size_t n) {
  if (n < BULK_MIN) {
    unsigned char *p = to;
    uint64_t word = 0x0101010101010101ull * (unsigned char)byte;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) *(word64 *)(p + i) = word;
    for (; i < n; i++) p[i] = (unsigned char)byte;
  } else {
    __asm__ volatile("local.get %0\nlocal.get %1\nlocal.get %2\nmemory.fill 0" : : "r"(to), "r"(byte), "r"(n) : "memory");
  }
  return to;
}

int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *p = a, *q = b;
  size_t i = 0;
  while (i + 8 <= n && *(const word64 *)(p + i) == *(const word64 *)(q + i)) i += 8;
  for (; i < n; i++)
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  return 0;
}
