/* The part of <setjmp.h> that LLVM's setjmp lowering needs; Debian's wasi-libc has no such header. */
#ifndef BELVEDERE_SETJMP_H
#define BELVEDERE_SETJMP_H

typedef struct {
  void *id;
  unsigned label;
  struct {
    void *env;
    int val;
  } arg;
} jmp_buf[1];

int setjmp(jmp_buf) __attribute__((returns_twice));
_Noreturn void longjmp(jmp_buf, int);

#endif
