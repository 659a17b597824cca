//! Compiles modules in a process of their own. Nothing in a module tells what compiling it takes, and only a process can be
//! ended and has limits of its own (`docs/adr/0093-plugins-are-compiled-in-a-process.md`).

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::LoadError;
#[cfg(test)]
use super::compiler_process;
use super::compiler_process::{COMMAND, CompileLimits, FAILED, OUT_OF_MEMORY, REFUSED};
use crate::plugins::limits;

/// The running program. The link leads to it also after its file was replaced, so its compiler is always this build's.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What the compiler may write about a failure.
const MESSAGE_BYTES: u64 = 4 << 10;

/// How modules are compiled.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// By a process of this program, within limits.
    Process { program: PathBuf, limits: CompileLimits },
    /// In this process, without limits: the program of a test has no command that compiles.
    #[cfg(test)]
    InThisProcess,
}

impl Compiler {
    pub fn this_program() -> Self {
        Self::program(THIS_PROGRAM)
    }

    /// `program` must be of the same build.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self::Process { program: program.into(), limits: CompileLimits::default() }
    }

    /// The machine code of a module for the plugin engine.
    pub(super) async fn compile(&self, module: Arc<[u8]>) -> Result<Vec<u8>, LoadError> {
        match self {
            Self::Process { program, limits } => in_process(program, *limits, &module).await,
            #[cfg(test)]
            Self::InThisProcess => {
                let compiled = tokio::task::spawn_blocking(move || compiler_process::machine_code(&module));
                compiled.await.map_err(|_| failed())?.map_err(|reason| unusable(&reason))
            }
        }
    }
}

fn unusable(reason: &str) -> LoadError {
    LoadError::Invalid(format!("the component can't be compiled: {reason}"))
}

fn failed() -> LoadError {
    LoadError::Invalid("the compiler failed on the module".to_owned())
}

fn unavailable(text: &str, error: &std::io::Error) -> LoadError {
    LoadError::Unavailable(format!("{text}: {error}"))
}

/// Compiles a module in a process that is ended with this call.
async fn in_process(program: &Path, limits: CompileLimits, module: &[u8]) -> Result<Vec<u8>, LoadError> {
    let mut command = Command::new(program);
    command
        .arg(COMMAND)
        .arg(format!("--max-seconds={}", limits.seconds))
        .arg(format!("--max-mib={}", limits.memory_mib))
        // The environment has secrets, which a compiler needs as little as a folder.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| unavailable("the compiler can't be started", &error))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let work = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A compiler that does not read to the end says why itself.
                let _ = stdin.write_all(module).await;
            }
        };
        let max = limits::MACHINE_CODE_BYTES as u64 + 1;
        let ((), code, message) = tokio::join!(write, read(stdout, max), read(stderr, MESSAGE_BYTES));
        let read = code.and_then(|code| message.map(|message| (code, message)));
        let (code, message) = read.map_err(|error| unavailable("the compiler can't be read", &error))?;
        if code.len() > limits::MACHINE_CODE_BYTES {
            let max = limits::MACHINE_CODE_BYTES >> 20;
            return Err(LoadError::Invalid(format!(
                "the machine code of the module has more than {max} MiB"
            )));
        }
        let status = child.wait().await;
        let status = status.map_err(|error| unavailable("the compiler can't be waited for", &error))?;
        if status.success() { Ok(code) } else { Err(failure(status, &message, limits)) }
    };
    tokio::time::timeout(limits::COMPILE_PATIENCE, work).await.unwrap_or_else(|_| {
        let text = format!("compiling the module took longer than {:?}", limits::COMPILE_PATIENCE);
        Err(LoadError::Unavailable(text))
    })
}

async fn read(from: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(max).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Why a compiler wrote no machine code.
fn failure(status: ExitStatus, message: &[u8], limits: CompileLimits) -> LoadError {
    let message = String::from_utf8_lossy(message);
    match status.code() {
        Some(code) if code == i32::from(REFUSED) => return unusable(message.trim()),
        Some(code) if code == i32::from(FAILED) => {
            return LoadError::Unavailable(format!("the compiler failed: {message}"));
        }
        _ => {}
    }
    let (signal, max) = (status.signal().unwrap_or_default(), limits);
    if signal == Signal::XCPU.as_raw() {
        let max = max.seconds;
        return unusable(&format!(
            "that takes more than {max} s of a processor; its functions are too complex"
        ));
    }
    if message.contains(OUT_OF_MEMORY) {
        let max = max.memory_mib;
        return unusable(&format!("that takes more than {max} MiB of memory; its functions are too complex"));
    }
    if signal == Signal::KILL.as_raw() {
        let text = "the compiler was killed; does the machine have enough memory?";
        return LoadError::Unavailable(text.to_owned());
    }
    tracing::error!(%status, %message, "the compiler of plugins failed");
    failed()
}

#[cfg(test)]
mod tests {
    use super::super::{EngineConfig, PluginEngine};
    use super::*;

    /// The built program; tests are in a folder beside it.
    fn program() -> PathBuf {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().join("belvedere")
    }

    fn engine(folder: &Path, seconds: u64, memory_mib: u64) -> PluginEngine {
        let compiler =
            Compiler::Process { program: program(), limits: CompileLimits { seconds, memory_mib } };
        PluginEngine::open(EngineConfig::new(folder, compiler)).unwrap()
    }

    /// A component that exports `describe`, with more functions.
    fn component(functions: &str) -> Vec<u8> {
        let text = format!(
            "(component
                (core module $m {functions} (func (export \"get\") (result i32) i32.const 0))
                (core instance $i (instantiate $m))
                (func $get (result u32) (canon lift (core func $i \"get\")))
                (instance $d (export \"get\" (func $get)))
                (export \"belvedere:plugin/describe@1.0.0\" (instance $d)))"
        );
        wat::parse_str(text).unwrap()
    }

    async fn refusal(compiler: &Compiler, functions: &str) -> LoadError {
        compiler.compile(component(functions).into()).await.map(drop).expect_err("it is refused")
    }

    #[tokio::test]
    async fn the_process_compiles_for_this_engine() {
        let module = component("(func (param i32) (result i32) (i32.mul (local.get 0) (i32.const 7)))");
        let limits = CompileLimits::default();
        let compiler = Compiler::Process { program: program(), limits };
        let code = compiler.compile(module.clone().into()).await.unwrap();
        assert!(code == compiler_process::machine_code(&module).unwrap(), "the program is of another build");
        let error = refusal(&compiler, "(func (result i32) i64.const 0)").await;
        assert!(
            error.to_string().contains("can't be compiled: ") && error.to_string().contains("i64"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_module_that_takes_too_long_delays_others_for_its_limit_only() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 1, 500);
        // Each passes the bounds of a function.
        let loops =
            format!("(func (param i32) {})", "(loop (br_if 0 (local.get 0)))".repeat(limits::LOOPS as usize));
        let slow = component(&loops.repeat(50));
        let busy = engine.clone();
        let compiling = tokio::spawn(async move { busy.load(&slow).await.map(drop) });
        tokio::task::yield_now().await;
        let other = engine.load(&component("")).await;
        assert!(other.is_ok(), "{other:?}");
        let error = compiling.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, LoadError::Invalid(text) if text.contains("more than 1 s of a processor")),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_module_that_takes_too_much_memory_is_refused() {
        let limits = CompileLimits { seconds: 60, memory_mib: 80 };
        let compiler = Compiler::Process { program: program(), limits };
        let conversions = "f64.convert_i32_s i32.trunc_f64_s ".repeat(100_000);
        let error = refusal(&compiler, &format!("(func (param i32) local.get 0 {conversions} drop)")).await;
        assert!(matches!(&error, LoadError::Invalid(text) if text.contains("more than 80 MiB")), "{error}");
    }

    #[tokio::test]
    async fn a_compiler_that_does_not_start_is_no_fault_of_the_module() {
        let error = refusal(&Compiler::program("/nonexistent/belvedere"), "").await;
        assert!(matches!(error, LoadError::Unavailable(_)), "{error:?}");
    }
}
