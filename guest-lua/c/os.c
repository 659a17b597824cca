/* The harmless part of the os library: os.time, os.date, os.difftime and os.clock, in UTC, with the host's clock.
   Compiles Lua's own loslib.c with its system calls replaced by macros; its other functions are never linked. */

static lua_Number guest_seconds(void) { return (lua_Number)belvedere_script_clock_now() / 1e6; }

#define l_gmtime(t, r) gmtime_r(t, r)
#define l_localtime(t, r) gmtime_r(t, r)
#define time(out) ((time_t)guest_seconds())
#define mktime(parts) timegm(parts)
#define clock() ((clock_t)0)
#define tmpnam(name) ((char *)NULL)
#define getenv(name) ((char *)NULL)
#define remove(name) (-1)
#define rename(from, to) (-1)
#define setlocale(category, name) ((char *)NULL)
#define l_system(command) (-1)
#include "loslib.c"
#undef time
#undef mktime
#undef clock
#undef tmpnam
#undef getenv
#undef remove
#undef rename
#undef setlocale

/* os.clock(): seconds since its first call in the run. */
static int os_elapsed(lua_State *L) {
  static lua_Number first;
  lua_Number now = guest_seconds();
  if (first == 0) first = now;
  lua_pushnumber(L, now - first);
  return 1;
}

static const luaL_Reg os_functions[] = {
    {"time", os_time}, {"date", os_date}, {"difftime", os_difftime}, {"clock", os_elapsed}, {NULL, NULL}};
