//! Compiles modules in a process of their own. Nothing in a module tells what compiling it takes, and only a process can be
//! ended and has limits of its own (`docs/adr/0093-plugins-are-compiled-in-a-process.md`).

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::LoadError;
#[cfg(any(test, feature = "testing"))]
use super::compiler_process;
use super::compiler_process::{COMPILE_COMMAND, CompileLimits, FAILED, OUT_OF_MEMORY, REFUSED};
use crate::plugins::limits;

/// The running program. The link leads to it also after its file was replaced, so its compiler is always this build's.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Maximum size of the compiler's text about a failure.
const MESSAGE_BYTES: u64 = 4 << 10;

/// Signals by which a process ends because of what it did: it took too long, or is broken. Others come from outside.
const OWN_SIGNALS: [Signal; 8] = [
    Signal::XCPU,
    Signal::ABORT,
    Signal::SEGV,
    Signal::BUS,
    Signal::ILL,
    Signal::FPE,
    Signal::TRAP,
    Signal::SYS,
];

/// The way in which modules are compiled.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// By a process of this program, within limits.
    Process { program: PathBuf, limits: CompileLimits },
    /// In this process, without limits: the program of a test has no command that compiles.
    #[cfg(any(test, feature = "testing"))]
    InThisProcess,
}

impl Compiler {
    pub fn this_program(limits: CompileLimits) -> Self {
        Self::Process { program: THIS_PROGRAM.into(), limits }
    }

    /// `program` must be of the same build.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self::Process { program: program.into(), limits: CompileLimits::default() }
    }

    /// The machine code of a module for the plugin engine.
    pub(super) async fn compile(&self, module: Arc<[u8]>) -> Result<Vec<u8>, LoadError> {
        match self {
            Self::Process { program, limits } => in_process(program, *limits, &module).await,
            #[cfg(any(test, feature = "testing"))]
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
        .arg(COMPILE_COMMAND)
        .arg(format!("--parent={}", std::process::id()))
        .arg(format!("--max-seconds={}", limits.seconds))
        .arg(format!("--max-mib={}", limits.memory_mib))
        // The environment has secrets, which a compiler needs as little as a folder.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let (mut child, _thread) =
        spawn(command).await.map_err(|error| unavailable("the compiler can't be started", &error))?;
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
    tokio::time::timeout(limits::COMPILE_MAX_WAIT, work).await.unwrap_or_else(|_| {
        let text = format!("compiling the module took longer than {:?}", limits::COMPILE_MAX_WAIT);
        Err(LoadError::Unavailable(text))
    })
}

/// Starts a process from a thread of its own, which ends when the second value is dropped. The kernel takes the end of the
/// thread that started a process for the end of its parent, and the runtime's threads come and go.
async fn spawn(mut command: Command) -> std::io::Result<(Child, oneshot::Sender<()>)> {
    let (started, child) = oneshot::channel();
    let (keeps, ended) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // If the caller has stopped waiting, the process ends with the value.
        if started.send(command.spawn()).is_ok() {
            let _ = ended.blocking_recv();
        }
    });
    let child = child.await.map_err(|_| std::io::ErrorKind::Interrupted)??;
    Ok((child, keeps))
}

async fn read(from: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(max).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The reason why a compiler wrote no machine code.
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
        let why = if max == CompileLimits::default() {
            "its functions are too complex"
        } else {
            "with a higher MEMORY_LIMIT_MIB the compiler may take more"
        };
        return unusable(&format!("that takes more than {} MiB of memory; {why}", max.memory_mib));
    }
    if signal == Signal::KILL.as_raw() {
        let text = "the compiler was killed; does the machine have enough memory?";
        return LoadError::Unavailable(text.to_owned());
    }
    if status.signal().is_some() && !OWN_SIGNALS.iter().any(|own| own.as_raw() == signal) {
        return LoadError::Unavailable(format!("the compiler was ended from outside: {status}"));
    }
    tracing::error!(%status, %message, "the compiler of plugins failed");
    failed()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, Instant};

    use rustix::fs::inotify;

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

    #[test]
    fn the_memory_of_a_small_server_bounds_that_of_its_compiler() {
        let mib = |server: u64| CompileLimits::beside(server << 20).memory_mib;
        assert_eq!([413, 512, 2047, 2048, 65_536].map(mib), [206, 256, 1023, 1024, 1024]);
    }

    #[test]
    fn only_signals_of_its_own_doing_are_the_modules_fault() {
        let refused = |signal: Signal| {
            let status = ExitStatus::from_raw(signal.as_raw());
            matches!(failure(status, b"", CompileLimits::default()), LoadError::Invalid(_))
        };
        for own in OWN_SIGNALS {
            assert!(refused(own), "{own:?}");
        }
        for other in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::KILL, Signal::PIPE] {
            assert!(!refused(other), "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_compiler_that_is_ended_from_outside_is_no_fault_of_the_module() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("compiler");
        std::fs::write(&program, "#!/bin/sh\nkill -TERM $$\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let error = refusal(&Compiler::program(program), "").await;
        assert!(matches!(&error, LoadError::Unavailable(text) if text.contains("signal: 15")), "{error:?}");
    }

    /// The command of a compiler of a process, with a limit that tells that it has begun.
    fn compiler_of(parent: u32) -> std::process::Command {
        let mut command = std::process::Command::new(program());
        command.arg(COMPILE_COMMAND).args(["--max-seconds=60", "--max-mib=321"]);
        command.arg(format!("--parent={parent}")).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    #[test]
    fn the_process_ends_with_its_server_and_before_it_when_memory_is_short() {
        const MAX_WAIT: Duration = Duration::from_secs(20);
        let started = Instant::now();
        // The end of the thread is that of the parent.
        let thread = std::thread::spawn(move || {
            let child = compiler_of(std::process::id()).stdin(Stdio::piped()).spawn().unwrap();
            let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
            while !read("limits").contains(&(321_u64 << 20).to_string()) && started.elapsed() < MAX_WAIT {
                std::thread::sleep(Duration::from_millis(10));
            }
            (read("oom_score_adj"), child)
        });
        let (score, mut child) = thread.join().unwrap();
        assert_eq!(score.trim(), "1000");
        // It stays open, so that the compiler waits for the module.
        let _stdin = child.stdin.take();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if started.elapsed() > MAX_WAIT => {
                    child.kill().unwrap();
                    panic!("it goes on");
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        let orphan = compiler_of(std::process::id() + 1).stdin(Stdio::null()).status().unwrap();
        assert_eq!(orphan.code(), Some(i32::from(FAILED)), "its server has ended before it began");
    }

    #[test]
    fn the_process_reads_no_environment_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        std::fs::write(&file, "SESSION_SECRET=x").unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, &file, inotify::WatchFlags::OPEN).unwrap();
        let mut command = compiler_of(std::process::id());
        let status = command.current_dir(folder.path()).stdin(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(i32::from(REFUSED)), "an empty module");
        let opened = rustix::io::read(&watch, &mut [0_u8; 1024]);
        assert_eq!(opened, Err(rustix::io::Errno::AGAIN));
    }

    #[tokio::test]
    async fn a_compiler_that_does_not_start_is_no_fault_of_the_module() {
        let error = refusal(&Compiler::program("/nonexistent/belvedere"), "").await;
        assert!(matches!(error, LoadError::Unavailable(_)), "{error:?}");
    }
}
