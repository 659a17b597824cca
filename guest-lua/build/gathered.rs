//! The functions that `parallel` gathers, and the C code in which theirs differ: a call in a task is announced to the host, the task
//! yields, and when it is resumed the call takes its answer (`c/parallel.c`).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use wit_bindgen_core::wit_parser::{InterfaceId, Resolve};

/// The functions that wait, and change nothing that a later call could read. `db.raw` is one of them because the host tells reads from
/// writes. The host has the same in `host/scripting/src/scripts/host/contract_calls.rs`.
pub(crate) const FUNCTIONS: [&str; 23] = [
    "atproto.resolve_service_endpoint",
    "atproto.resolve_handle",
    "atproto.handles",
    "atproto.labels",
    "db.query",
    "db.get",
    "db.count",
    "db.group",
    "db.backlinks",
    "db.link_counts",
    "db.links_by",
    "db.raw",
    "db.select_page",
    "db.search",
    "db.profiles",
    "http.send",
    "repo.load",
    "spaces.query",
    "spaces.count",
    "spaces.access",
    "spaces.list_members",
    "xrpc.query",
    "xrpc.query_all",
];

/// Fails unless the contract has all of them.
pub(crate) fn check(resolve: &Resolve, interfaces: &BTreeMap<String, InterfaceId>) -> Result<()> {
    for function in FUNCTIONS {
        let known = function.split_once('.').and_then(|(interface, name)| {
            let functions = &resolve.interfaces[*interfaces.get(interface)?].functions;
            functions.keys().find(|known| known.replace('-', "_") == name)
        });
        known.with_context(|| format!("wit/ has no function {function}"))?;
    }
    Ok(())
}

/// The head of a function, which goes on here when its task is resumed. `number` is that of its call then.
pub(crate) fn head(name: &str, what: &str, params: usize) -> String {
    format!(
        "
static int made_{name}(lua_State *L, int status, lua_KContext number) {{
  (void)status;
  luaL_checkstack(L, 40, \"{what}\");
  if (!number) lua_settop(L, {params});
  if (parallel_must_wait(L, number)) return parallel_yield(L, number, made_{name});
  if (!number) meter_host_called();
"
    )
}

/// The call, up to the brace in which an error is raised. `error` is the C name of its type.
pub(crate) fn call(name: &str, call: &str, error: &str) -> String {
    format!(
        "  int is_made = number != 0, is_deferred = parallel_begin(L, &number);
  if (!is_made) profile_calling();
  bool done = {call};
  if (!is_made) profile_called();
  if (is_deferred) {{
    if (!done) {error}_free(&error);
    return parallel_yield(L, number, made_{name});
  }}
  if (!done) {{
"
    )
}

/// The function of Lua.
pub(crate) fn entry(name: &str) -> String {
    format!("static int host_{name}(lua_State *L) {{ return made_{name}(L, LUA_OK, 0); }}\n")
}
