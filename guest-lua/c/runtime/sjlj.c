/* The runtime functions of LLVM's lowering of setjmp to WebAssembly exceptions. `jump` has the layout of jmp_buf. */
#include <stdint.h>

struct jump {
  void *id;
  uint32_t label;
  struct {
    void *env;
    int val;
  } arg;
};

void __wasm_setjmp(void *env, uint32_t label, void *id) {
  struct jump *jump = env;
  jump->id = id;
  jump->label = label;
}

uint32_t __wasm_setjmp_test(void *env, void *id) {
  struct jump *jump = env;
  return jump->id == id ? jump->label : 0;
}

void __wasm_longjmp(void *env, int val) {
  struct jump *jump = env;
  jump->arg.env = env;
  jump->arg.val = val ? val : 1;
  __builtin_wasm_throw(1, &jump->arg); /* 1 is the tag __c_longjmp, in tag.S */
}
