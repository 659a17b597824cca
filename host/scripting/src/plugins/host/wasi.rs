//! WASI 0.2 with nothing inside. Output goes to the plugin's log. Sockets are not linked.

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{WasiCtxView, WasiView};

use super::log::{release_lines, write_line};
use super::state::CallState;
use crate::plugins::bindings::belvedere::plugin::log::Level;

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi.view(&self.services.clock, &self.services.random)
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
    clocks::monotonic_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
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
    /// Writes the lines that were held, and what the program printed, line by line. Called at the end of a call, whatever
    /// its end.
    pub(in crate::plugins) fn log_output(&mut self) {
        release_lines(self);
        let (output, is_cut) = self.wasi.take_output();
        let mut lines = output.as_slice();
        if is_cut {
            // The last line may end within a secret.
            let end = output.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
            lines = &output[..end];
        }
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            write_line(self, Level::Info, String::from_utf8_lossy(line).into_owned(), None);
        }
        if is_cut {
            write_line(self, Level::Warn, "the call printed too much; the rest is dropped".to_owned(), None);
        }
    }
}
