//! The process that compiles one module, which [`super::compiler`] starts: it limits itself, reads the module from its
//! standard input and writes the machine code to its standard output.

use std::io::{Read as _, Write as _};
use std::os::unix::process::parent_id;

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, nice, set_parent_process_death_signal, setrlimit,
};
use wasmtime::Engine;

use super::wasm_config::wasm_config;
use crate::plugins::limits;

/// The command of the program. It is the first argument.
pub const COMPILE_COMMAND: &str = "compile-plugin";

/// The exit status when the module can't be compiled; the reason is on the standard error.
pub(super) const REFUSED: u8 = 3;

/// The exit status when something else failed; again with a reason.
pub(super) const FAILED: u8 = 1;

/// Part of what a Rust program writes when it gets no memory.
pub(super) const OUT_OF_MEMORY: &str = "memory allocation of";

/// The compiler's niceness: requests come first.
const NICENESS: i32 = 10;

/// The highest preference of the kernel when memory is short and it ends a process (`proc_pid_oom_score_adj(5)`): the module is
/// tried again, but a server that is ended takes all requests with it.
const OOM_SCORE: &str = "1000";

/// Seconds between the signal that ends a compiler over its time, and the one that no process can ignore.
const GRACE_SECONDS: u64 = 1;

/// The limits of compiling one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// The seconds of a processor.
    pub seconds: u64,
    pub memory_mib: u64,
}

impl CompileLimits {
    /// The limits beside a server that stays within `server_memory` bytes: both share a machine or a container.
    pub fn beside(server_memory: u64) -> Self {
        let memory = limits::COMPILE_MEMORY.min(server_memory / limits::COMPILE_MEMORY_PART);
        Self { seconds: limits::COMPILE_TIME.as_secs(), memory_mib: memory >> 20 }
    }
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self::beside(u64::MAX)
    }
}

/// The reason why there is no machine code.
enum Failure {
    /// The module can't be compiled.
    Module(String),
    Process(String),
}

/// Compiles the module from the standard input for the process `parent`; returns the exit status. Limits the whole process, so
/// it must have nothing else to do.
pub fn compile_module(limits: CompileLimits, parent: u32) -> u8 {
    let (status, reason) = match compile(limits, parent) {
        Ok(()) => return 0,
        Err(Failure::Module(reason)) => (REFUSED, reason),
        Err(Failure::Process(reason)) => (FAILED, reason),
    };
    // The text is lost if the server has ended.
    let _ = std::io::stderr().write_all(reason.as_bytes());
    status
}

fn compile(limits: CompileLimits, parent: u32) -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::Process(format!("{what}: {error}"));
    // It ends with the server, also when that is killed.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed("the signal of the server's end can't be set", &error))?;
    if parent_id() != parent {
        return Err(Failure::Process("the server has ended".to_owned()));
    }
    // If it can't be set, the compiler is as likely to be ended as others.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    limit(limits).map_err(|error| failed("the limits can't be set", &error))?;
    let mut module = Vec::new();
    let mut input = std::io::stdin().lock().take(limits::MODULE_BYTES as u64 + 1);
    input.read_to_end(&mut module).map_err(|error| failed("the module can't be read", &error))?;
    let code = machine_code(&module).map_err(Failure::Module)?;
    std::io::stdout().write_all(&code).map_err(|error| failed("the machine code can't be written", &error))
}

fn limit(limits: CompileLimits) -> rustix::io::Result<()> {
    let set = |resource: Resource, soft: u64, hard: u64| {
        // A lower limit that the process was started with stays.
        let held = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        setrlimit(resource, Rlimit { current: Some(soft.min(held)), maximum: Some(hard.min(held)) })
    };
    set(Resource::Cpu, limits.seconds, limits.seconds + GRACE_SECONDS)?;
    let bytes = limits.memory_mib << 20;
    // Not the address space: the engine reserves gigabytes of it for instances, and uses none.
    set(Resource::Data, bytes, bytes)?;
    // A process that its time limit ends would leave one.
    set(Resource::Core, 0, 0)?;
    nice(NICENESS).map(drop)
}

/// The machine code of a module for the plugin engine.
pub(super) fn machine_code(module: &[u8]) -> Result<Vec<u8>, String> {
    let shown = |error: wasmtime::Error| format!("{error:#}");
    // The size of the pool is no part of the machine code.
    let engine = Engine::new(&wasm_config(1)).map_err(shown)?;
    engine.precompile_component(module).map_err(shown)
}
