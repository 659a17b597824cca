/* Stubs of the WASI functions that libc imports: no files, a clock that stands at 0, and random bytes that are all 0.
   Time and seeds come from the host through the contract. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BADF = 8 };

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t a, int32_t b, int32_t c, int32_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return BADF;
}
int32_t __imported_wasi_snapshot_preview1_fd_read(int32_t a, int32_t b, int32_t c, int32_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return BADF;
}
int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t a, int64_t b, int32_t c, int32_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return BADF;
}
int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t a) {
  (void)a;
  return BADF;
}
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t a, int32_t b) {
  (void)a, (void)b;
  return BADF;
}
int32_t __imported_wasi_snapshot_preview1_clock_time_get(int32_t a, int64_t b, int32_t out) {
  (void)a, (void)b;
  *(int64_t *)(intptr_t)out = 0;
  return 0;
}
int32_t __imported_wasi_snapshot_preview1_random_get(int32_t out, int32_t n) {
  memset((void *)(intptr_t)out, 0, (size_t)n);
  return 0;
}
_Noreturn void __imported_wasi_snapshot_preview1_proc_exit(int32_t code) {
  (void)code;
  __builtin_trap();
}

/* luaL_loadfilex is never reachable from a script; this keeps libc's file layer out of the link. */
typedef struct file file;
file *fopen(const char *path, const char *mode) {
  (void)path, (void)mode;
  return NULL;
}
file *freopen(const char *path, const char *mode, file *f) {
  (void)path, (void)mode, (void)f;
  return NULL;
}
