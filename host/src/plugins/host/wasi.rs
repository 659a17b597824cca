//! WASI 0.2 with nothing inside: no files, arguments, environment or input. Time and randomness are the server's, and
//! output goes to the plugin's log. Sockets are not linked.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{IsTerminal, StdoutStream, WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{HostWallClock, WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::bindings::belvedere::plugin::log::Level;
use super::log::write_line;
use super::state::CallState;
use crate::clock::Clock;
use crate::plugins::limits;

/// Bytes that a program may write to its output in one step.
const WRITE_BYTES: usize = 4 << 10;

/// Bytes of output of a call that are kept: as many as log lines show.
const OUTPUT_BYTES: usize = 64 << 10;

/// WASI's part of a call. Made when the plugin first uses it, because most plugins do not.
#[derive(Default)]
pub(super) struct Wasi {
    context: Option<WasiCtx>,
    table: ResourceTable,
    output: Output,
}

/// What the program wrote to stdout and stderr.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

/// The server's clock, as WASI's.
struct WallClock(Clock);

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Wasi { context, table, output } = &mut self.wasi;
        let ctx = context.get_or_insert_with(|| {
            table.set_max_capacity(limits::RESOURCES);
            let (clock, random) = (&self.services.clock, &self.services.random);
            WasiCtx::builder()
                .stdout(output.clone())
                .stderr(output.clone())
                .wall_clock(WallClock(clock.clone()))
                .secure_random(random.generator())
                .insecure_random(random.generator())
                .insecure_random_seed(u128::from_le_bytes(random.bytes()))
                .max_random_size(u64::from(limits::RANDOM_BYTES))
                .build()
        });
        WasiCtxView { ctx, table }
    }
}

/// The streams and polls of `wasi:io`.
struct Io;

impl HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links every interface of WASI but those of sockets.
pub(super) fn link(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    use wasmtime_wasi::p2::bindings::io;
    type State = CallState;
    fn table(state: &mut State) -> &mut ResourceTable {
        state.ctx().table
    }
    io::error::add_to_linker::<State, Io>(linker, table)?;
    io::poll::add_to_linker::<State, Io>(linker, table)?;
    io::streams::add_to_linker::<State, Io>(linker, table)?;
    clocks::wall_clock::add_to_linker::<State, WasiClocks>(linker, State::clocks)?;
    clocks::monotonic_clock::add_to_linker::<State, WasiClocks>(linker, State::clocks)?;
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    filesystem::types::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    random::random::add_to_linker::<State, WasiRandom>(linker, State::random)?;
    random::insecure::add_to_linker::<State, WasiRandom>(linker, State::random)?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(linker, State::random)?;
    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)
}

impl CallState {
    /// Writes what the program printed to its log, line by line. Called at the end of a call, whatever its end.
    pub(in crate::plugins) fn log_output(&mut self) {
        let output = std::mem::take(&mut *self.wasi.output.0.lock().unwrap_or_else(PoisonError::into_inner));
        for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            write_line(self, Level::Info, String::from_utf8_lossy(line).into_owned(), None);
        }
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Of WASI 0.3, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

/// What exceeds the bound is discarded: a program that fails when it can't print would end because of its log.
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = OUTPUT_BYTES.saturating_sub(output.len());
        output.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

impl Pollable for Output {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(()))
    }
}

impl HostWallClock for WallClock {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.now().0).unwrap_or(0))
    }
}
