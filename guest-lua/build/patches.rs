//! Patches Lua's own sources: the instruction counter, and tables that are decoded when something looks into them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// A text, the text that replaces it, and how often it occurs.
type Patch = (&'static str, &'static str, usize);

/// The files that are patched, in one of the guests at least, without their extension.
pub(crate) const PATCHED: [&str; 6] = ["lvm", "lapi", "lgc", "ltable", "ldo", "lfunc"];

/// `lvm.c`: the instruction counter.
///
/// The counter of instructions is a variable of `luaV_execute`, so that it stays in a register. Every instruction of every
/// coroutine goes through `vmfetch`, which decrements it; below zero it calls `meter_exhausted`, which does not return. It
/// is written to `meter_left` wherever the VM saves the program counter, because the call may raise an error or run
/// other Lua code, and is read back after calls. The two places where Lua allocates without saving the program counter save
/// it too; otherwise a caught memory error would refund the instructions before it.
///
/// There are no debug hooks, so `trap` only says that the stack has moved. `base` is read again after every call instead,
/// and no instruction has to test `trap`.
const VM: [Patch; 14] = [
    (
        "#define vmfetch()\t{ \\\n  if (l_unlikely(trap)) {  /* stack reallocation or hooks? */ \\\n    \
         trap = luaG_traceexec(L, pc);  /* handle hooks */ \\\n    updatebase(ci);  /* correct stack */ \\\n  } \\\n",
        "static int meter_left = 0x7fffffff;\nstatic void meter_exhausted (lua_State *L);\n#define vmfetch()\t{ \\\n  \
         if (l_unlikely(--meter < 0)) { pc++; savepc(L); meter_exhausted(L); } \\\n",
        1,
    ),
    ("(ci->u.l.savedpc = pc)", "(meter_left = meter, ci->u.l.savedpc = pc)", 1),
    ("(trap = ci->u.l.trap)", "(meter = meter_left, updatebase(ci))", 1),
    ("{ if (l_unlikely(trap)) { updatebase(ci); ra = RA(i); } }", "{ ra = RA(i); }", 1),
    ("{ pc += GETARG_sJ(i) + e; updatetrap(ci); }", "{ pc += GETARG_sJ(i) + e; }", 1),
    ("  int trap;\n", "  int meter;\n", 1),
    (
        "  trap = L->hookmask;\n returning:  /* trap already set */\n",
        "  meter = meter_left;\n returning:\n",
        1,
    ),
    ("  if (l_unlikely(trap))\n    trap = luaG_tracecall(L);\n", "", 1),
    ("          trap = 1;\n", "          updatetrap(ci);\n", 2),
    (" ret:  /* return from a Lua function */\n", " ret:\n        meter_left = meter;\n", 1),
    ("        updatetrap(ci);  /* allows a signal to break the loop */\n", "", 1),
    ("if (l_unlikely(trap)) {  /* previous \"Protect\" updated trap */", "if (l_unlikely(L->hookmask)) {", 1),
    (
        "        t = luaH_new(L);  /* memory allocation */\n",
        "        savepc(L);\n        t = luaH_new(L);\n",
        1,
    ),
    (
        "          luaH_resizearray(L, h, last);  /* preallocate it at once */\n",
        "        {\n          savepc(L);\n          luaH_resizearray(L, h, last);\n        }\n",
        1,
    ),
];

/// A text that must not occur in the patched `lvm.c`, so that a new version of Lua can't use the stack's old place, or
/// run without a counter.
const GONE: &str = "trap)";

/// `lapi.c`: functions that ignore metamethods open the rows of `row.c` first. Scripts can't get at the metatable of a row.
const API: [Patch; 5] = [
    (
        "  if (mt != NULL) {\n    sethvalue2s(L, L->top.p, mt);\n    api_incr_top(L);\n    res = 1;\n",
        "  if (mt != NULL && mt != row_opened_metatable()) {\n    sethvalue2s(L, L->top.p, mt);\n    \
         api_incr_top(L);\n    res = 1;\n",
        1,
    ),
    (
        "static Table *gettable (lua_State *L, int idx) {\n  TValue *t = index2value(L, idx);\n  \
         api_check(L, ttistable(t), \"table expected\");\n  return hvalue(t);\n",
        "static Table *row_opened (lua_State *L, Table *t);\nstatic Table *row_opened_metatable (void);\n\
         static Table *gettable (lua_State *L, int idx) {\n  \
         return row_opened(L, hvalue(index2value(L, idx)));\n",
        1,
    ),
    (
        "      mt = hvalue(obj)->metatable;\n      break;\n",
        "      mt = row_opened(L, hvalue(obj))->metatable;\n      break;\n",
        1,
    ),
    // Metamethods are looked up in a metatable without opening it.
    (
        "  obj = index2value(L, objindex);\n  if (ttisnil(s2v(L->top.p - 1)))\n",
        "  if (ttistable(s2v(L->top.p - 1))) row_opened(L, hvalue(s2v(L->top.p - 1)));\n  \
         obj = index2value(L, objindex);\n  if (ttisnil(s2v(L->top.p - 1)))\n",
        1,
    ),
    // Decoding may move the stack, which holds the key.
    (
        "  aux_rawset(L, idx, s2v(L->top.p - 2), 2);\n",
        "  gettable(L, idx);\n  aux_rawset(L, idx, s2v(L->top.p - 2), 2);\n",
        1,
    ),
];

/// `lgc.c`: the decoder's cache of names is cleared where Lua's own cache of strings is.
const COLLECTOR: [Patch; 1] = [("  luaS_clearcache(g);\n", "  luaS_clearcache(g);\n  decode_forget();\n", 1)];

/// `ltable.c`: what a row keeps under a key of its own is not among the keys of the table.
const TABLES: [Patch; 2] = [
    (
        "int luaH_next (lua_State *L, Table *t, StkId key) {\n",
        "static char row_key;\n\nstatic inline int row_hides (const Node *n) {\n  \
         return keytt(n) == LUA_VLIGHTUSERDATA && keyval(n).p == &row_key;\n}\n\n\
         int luaH_next (lua_State *L, Table *t, StkId key) {\n",
        1,
    ),
    (
        "    if (!isempty(gval(gnode(t, i)))) {  /* a non-empty entry? */\n      Node *n = gnode(t, i);\n",
        "    if (!isempty(gval(gnode(t, i))) && !row_hides(gnode(t, i))) {  /* a non-empty entry? */\n      \
         Node *n = gnode(t, i);\n",
        1,
    ),
];

/// The profiled guest's `lvm.c`, after [`VM`]: each instruction and each start of a frame call `profile.c`.
const PROFILED_VM: [Patch; 3] = [
    (
        "static void meter_exhausted (lua_State *L);\n",
        "static void meter_exhausted (lua_State *L);\nstatic void profile_entered (CallInfo *ci);\n\
         static void profile_instruction (lua_State *L, CallInfo *ci, const Instruction *pc);\n",
        1,
    ),
    ("  i = *(pc++); \\\n", "  profile_instruction(L, ci, pc); \\\n  i = *(pc++); \\\n", 1),
    (
        "  meter = meter_left;\n returning:\n",
        "  meter = meter_left;\n  profile_entered(ci);\n returning:\n",
        1,
    ),
];

/// The profiled guest's `ldo.c`: `trap` holds a place of the profile.
const PROFILED_CALLS: [Patch; 1] = [(
    "    if (isLua(ci))\n      ci->u.l.trap = 1;  /* signal to update 'trap' in 'luaV_execute' */\n",
    "",
    1,
)];

/// The profiled guest's `lfunc.c`.
const PROFILED_FUNCTIONS: [Patch; 1] = [(
    "void luaF_freeproto (lua_State *L, Proto *f) {\n",
    "void luaF_freeproto (lua_State *L, Proto *f) {\n  profile_forget(f);\n",
    1,
)];

/// Writes the patched files of the guest of servers to `out`. Fails unless each text occurs as often as expected, so that a
/// new version of Lua can't run unmetered.
pub(crate) fn patch(lua: &Path, out: &Path) -> Result<()> {
    let patches: [&[&[Patch]]; 6] = [&[&VM], &[&API], &[&COLLECTOR], &[&TABLES], &[], &[]];
    write(lua, out, patches)
}

/// Like [`patch`], for the profiled guest.
pub(crate) fn patch_profiled(lua: &Path, out: &Path) -> Result<()> {
    let patches: [&[&[Patch]]; 6] = [
        &[&VM, &PROFILED_VM],
        &[&API],
        &[&COLLECTOR],
        &[&TABLES],
        &[&PROFILED_CALLS],
        &[&PROFILED_FUNCTIONS],
    ];
    write(lua, out, patches)
}

fn write(lua: &Path, out: &Path, patches: [&[&[Patch]]; 6]) -> Result<()> {
    for (name, patches) in PATCHED.into_iter().zip(patches) {
        let file = format!("{name}.c");
        let mut text = fs::read_to_string(lua.join(&file)).with_context(|| file.clone())?;
        for &(old, new, count) in patches.iter().copied().flatten() {
            let found = text.matches(old).count();
            ensure!(found == count, "{file} has {old:?} {found} times, not {count}; review the patches");
            text = text.replace(old, new);
        }
        ensure!(name != "lvm" || !text.contains(GONE), "{file} still tests a trap; review the patches");
        fs::write(out.join(file), text)?;
    }
    Ok(())
}
