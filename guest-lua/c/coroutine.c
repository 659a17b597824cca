/* Lua's coroutine library. Its lua_resume is replaced by one that records which coroutine runs, and who resumed it. */

#define lua_resume meter_resume
#include "lcorolib.c"
#undef lua_resume
