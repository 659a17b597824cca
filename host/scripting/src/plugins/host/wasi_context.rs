//! A program's environment in WASI: no files, arguments, variables or input. Time and randomness are the server's.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::clocks::HostWallClock;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{WasiCtx, WasiCtxView};

use crate::plugins::limits;
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;

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

/// The text that the program wrote to stdout and stderr, and whether some of it was discarded.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<(Vec<u8>, bool)>>);

/// The server's clock, as WASI's.
struct WallClock(Clock);

impl Wasi {
    pub(super) fn view(&mut self, clock: &Clock, random: &Random) -> WasiCtxView<'_> {
        let Self { context, table, output } = self;
        let ctx = context.get_or_insert_with(|| {
            table.set_max_capacity(limits::RESOURCES);
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

    /// Takes what the program printed. The flag says whether it printed more.
    pub(super) fn take_output(&mut self) -> (Vec<u8>, bool) {
        std::mem::take(&mut *self.output.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // The sink is for WASI 0.3, which is not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

/// Text above the bound is discarded: a program that fails when it can't print would end because of its log.
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let (output, is_cut) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = OUTPUT_BYTES.saturating_sub(output.len());
        output.extend_from_slice(&bytes[..bytes.len().min(room)]);
        *is_cut |= bytes.len() > room;
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
