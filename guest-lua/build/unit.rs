//! Writes the one translation unit: Lua's core and libraries, all static, then our C files, so that the compiler
//! optimises across all of it and drops unused functions. The prelude is included as byte arrays.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::patches;

/// Lua's files in the order of its own `onelua.c`. Some are patched copies; `coroutine.c` includes `lcorolib`, and
/// `os.c` includes `loslib`.
const LUA: [&str; 26] = [
    "lzio", "lctype", "lopcodes", "lmem", "lundump", "ldump", "lstate", "lgc", "llex", "lcode", "lparser",
    "ldebug", "lfunc", "lobject", "ltm", "lstring", "ltable", "ldo", "lvm", "lapi", "lauxlib", "lbaselib",
    "lmathlib", "lstrlib", "ltablib", "lutf8lib",
];

/// Our C files. Each may use definitions of the files before it. `glue.c` is generated, and only the
/// profiled guest has `profile.c`.
const OURS: [&str; 16] = [
    "memory.c",
    "meter.c",
    "profile.c",
    "coroutine.c",
    "parallel.c",
    "raise.c",
    "buffer.c",
    "utf8.c",
    "row.c",
    "json_encode.c",
    "json_decode.c",
    "os.c",
    "values.c",
    "glue.c",
    "prelude.c",
    "names.c",
];

/// The macro by which C files tell the profiled guest.
const PROFILED: &str = "#define BELVEDERE_PROFILED\n";

const HEAD: &str = "#define LUA_CORE\n#define LUA_LIB\n#define ltable_c\n#define lvm_c\n#include \"luaconf.h\"\n\
    #include \"config.h\"\n\
    #undef LUAI_FUNC\n#undef LUAI_DDEC\n#undef LUAI_DDEF\n\
    #define LUAI_FUNC static\n#define LUAI_DDEC(def)\n#define LUAI_DDEF static\n\
    #undef LUA_API\n#undef LUALIB_API\n#undef LUAMOD_API\n\
    #define LUA_API static\n#define LUALIB_API static\n#define LUAMOD_API static\n\
    #include <setjmp.h>\n#include <limits.h>\n#include <math.h>\n#include <stdarg.h>\n#include <stdio.h>\n\
    #include <stdlib.h>\n#include <string.h>\n#include <time.h>\n#include \"hooks.h\"\n";

/// The folders that hold the sources, and the one that is written to.
pub(crate) struct Folders<'a> {
    pub(crate) lua: &'a Path,
    pub(crate) ours: &'a Path,
    pub(crate) prelude: &'a Path,
    /// Lua's patched files.
    pub(crate) patched: &'a Path,
    pub(crate) out: &'a Path,
    /// Whether it is the guest that counts instructions by line.
    pub(crate) profiled: bool,
}

/// Writes the unit and returns its path. The patched files must be there, and `glue.c` in `out`.
pub(crate) fn write(folders: &Folders<'_>) -> Result<PathBuf> {
    let mut unit = if folders.profiled { PROFILED.to_owned() + HEAD } else { HEAD.to_owned() };
    let mut include = |path: PathBuf| writeln!(unit, "#include \"{}\"", path.display());
    for name in LUA {
        let folder = if patches::PATCHED.contains(&name) { folders.patched } else { folders.lua };
        include(folder.join(format!("{name}.c")))?;
    }
    include("guest.h".into())?;
    for name in OURS.into_iter().filter(|name| folders.profiled || *name != "profile.c") {
        if name == "prelude.c" {
            include(folders.out.join("prelude_files.c"))?;
        }
        let folder = if name == "glue.c" { folders.out } else { folders.ours };
        include(folder.join(name))?;
    }
    include(folders.ours.join("guest.c"))?;
    fs::write(folders.out.join("prelude_files.c"), prelude_files(folders.prelude)?)?;
    let path = folders.patched.join("unit.c");
    fs::write(&path, unit)?;
    Ok(path)
}

/// The Lua files of a folder, sorted by name so that the build is reproducible.
fn lua_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "lua") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The prelude's files as one C array, which is memory of runs once they are loaded, and the list of them. Those of a folder work in any
/// order; those of `v3` come last, because they adapt the others.
fn prelude_files(folder: &Path) -> Result<String> {
    let mut paths = lua_files(folder)?;
    paths.extend(lua_files(&folder.join("v3"))?);
    let mut sources = "static unsigned char prelude_sources[] = {".to_owned();
    let mut length = 0;
    let mut list = "static const struct prelude_file {\n  const unsigned char *source;\n  size_t length;\n} \
                    prelude_files[] = {\n"
        .to_owned();
    for path in paths {
        let bytes = fs::read(path)?;
        for byte in &bytes {
            write!(sources, "{byte},")?;
        }
        writeln!(list, "  {{prelude_sources + {length}, {}}},", bytes.len())?;
        length += bytes.len();
    }
    Ok(format!("{sources}}};\n{list}  {{NULL, 0}},\n}};\n"))
}
