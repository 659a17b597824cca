/* Replaces a macro of Lua's core by a hook of meter.c, and declares what the patches (build/patches.rs) call. Included right after config.h, before Lua's own files. */
#ifndef BELVEDERE_HOOKS_H
#define BELVEDERE_HOOKS_H

#include "lua.h"
#include "lmem.h"

/* Memory errors call no message handler, so this is the only place that knows the line. */
static void meter_out_of_memory(lua_State *L);
#undef luaM_error
#define luaM_error(L) (meter_out_of_memory(L), luaD_throw(L, LUA_ERRMEM))

/* Of json_decode.c. */
static void decode_forget(void);

/* Of profile.c, which only the profiled guest has. */
#ifdef BELVEDERE_PROFILED
struct Proto;
static void profile_forget(const struct Proto *p);
#else
static inline void profile_reset(void) {}
static inline void profile_calling(void) {}
static inline void profile_called(void) {}
#endif

#endif
