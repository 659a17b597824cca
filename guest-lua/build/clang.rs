//! Finds the C compiler, checks its version, and runs it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The first version that emits the standard encoding of WebAssembly exceptions, which is the one wasmtime accepts.
const MIN_VERSION: u32 = 20;
/// The version that the guest is tested and measured with.
const DEFAULT: &str = "clang-22";
const FIX: &str = "The script guest is compiled from C with clang. On Debian or Ubuntu (packages from apt.llvm.org \
                   where the distribution has none):\n\n    apt-get install -y --no-install-recommends clang-22 \
                   lld-22 libclang-rt-22-dev-wasm32 wasi-libc\n\nor set WASM_CC to another clang of version 20 or \
                   later that can link for wasm32-wasi.";

const TARGET: [&str; 2] = ["--target=wasm32-wasi", "-Wno-deprecated"];

const FLAGS: [&str; 21] = [
    "-O3",
    "-std=gnu11",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-stack-protector",
    // Lua raises errors with setjmp and longjmp; these flags lower them to WebAssembly exceptions
    "-mllvm",
    "-wasm-enable-eh",
    "-mllvm",
    "-wasm-enable-sjlj",
    "-mllvm",
    "-wasm-use-legacy-eh=false",
    "-DLUAI_THROW(L,c)=longjmp((c)->b,1)",
    "-DLUAI_TRY(L,c,a)=if(setjmp((c)->b)==0){a}",
    "-Dluai_jmpbuf=jmp_buf",
    "-Dl_signalT=int",
    // WebAssembly has no computed jumps: they become a table look-up and then a switch
    "-DLUA_USE_JUMPTABLE=0",
    "-D_WASI_EMULATED_SIGNAL",
    // a constant hash seed: the image is taken after the prelude's strings are hashed
    "-Dluai_makeseed(L)=0x5eed1234",
    // no bulk-memory instructions: runtime/memory.c decides when one pays
    "-mno-bulk-memory-opt",
    "-mno-bulk-memory",
    // no warnings: most of them would be about Lua's own sources
    "-w",
];

const LINK: [&str; 10] = [
    "-nostartfiles",
    "-fuse-ld=lld",
    "-Wl,--no-entry",
    "-Wl,--gc-sections",
    "-Wl,--strip-debug",
    // the image is taken through this export
    "-Wl,--export=__stack_pointer",
    // an overflow of the C stack hits address zero and traps, instead of running into data
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=262144",
    // An ordinary run fits in the memory of the image. Growing it costs two system calls that interrupt other threads: one
    // to grow it and one to shrink it again.
    "-Wl,--initial-memory=1572864",
    "-O3",
];

pub(crate) struct Clang {
    program: String,
    includes: Vec<PathBuf>,
}

impl Clang {
    /// The compiler of `WASM_CC`, else the default one. When it is missing or too old, the error says what to install.
    pub(crate) fn find(includes: Vec<PathBuf>) -> Result<Self> {
        let program =
            env::var_os("WASM_CC").and_then(|v| v.into_string().ok()).unwrap_or_else(|| DEFAULT.to_owned());
        let Ok(output) = Command::new(&program).arg("--version").output() else {
            bail!("{program} was not found.\n\n{FIX}\n");
        };
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        match major(&version) {
            Some(found) if found >= MIN_VERSION => Ok(Self { program, includes }),
            Some(found) => {
                bail!("{program} is clang {found}, but {MIN_VERSION} or later is needed.\n\n{FIX}\n")
            }
            None => bail!("{program} is not a clang: {:?}\n\n{FIX}\n", version.lines().next().unwrap_or("")),
        }
    }

    /// Compiles one C file of the guest.
    pub(crate) fn compile(&self, source: &Path, object: &Path) -> Result<()> {
        self.run(FLAGS.iter().chain(["-c"].iter()), source, object)
    }

    /// Compiles a file of the C runtime. It defines functions such as `memcpy` that the compiler emits calls to, so
    /// builtins are off: otherwise a function could be compiled into a call to itself.
    pub(crate) fn compile_runtime(&self, source: &Path, object: &Path) -> Result<()> {
        let flags = ["-O3", "-fno-builtin", "-mbulk-memory", "-mllvm", "-wasm-enable-eh", "-mllvm"];
        self.run(flags.iter().chain(["-wasm-use-legacy-eh=false", "-c"].iter()), source, object)
    }

    fn run<'a>(&self, flags: impl Iterator<Item = &'a &'a str>, source: &Path, object: &Path) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.args(TARGET).args(flags);
        for folder in &self.includes {
            command.arg("-I").arg(folder);
        }
        checked(command.arg(source).arg("-o").arg(object))
    }

    /// Links objects to a core module.
    pub(crate) fn link(&self, objects: &[impl AsRef<OsStr>], module: &Path) -> Result<()> {
        checked(Command::new(&self.program).args(TARGET).args(LINK).args(objects).arg("-o").arg(module))
    }
}

fn checked(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "compiling the script guest failed: {command:?}\n{stderr}\n\nIf a header or library is missing:\n\n{FIX}"
        );
    }
    Ok(())
}

/// The major version: 22 for "Debian clang version 22.1.8 (1~deb12u1)".
fn major(version: &str) -> Option<u32> {
    let rest = version.split_once("clang version ")?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
