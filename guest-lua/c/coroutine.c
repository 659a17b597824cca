/* Lua's coroutine library. Its lua_resume is replaced by one that records which coroutine runs, and who resumed it. */

#define lua_resume meter_resume
#ifdef BELVEDERE_PROFILED
#define lua_closethread profile_closethread
#endif
#include "lcorolib.c"
#undef lua_resume
#ifdef BELVEDERE_PROFILED
#undef lua_closethread
#endif
