//! Writes log lines to standard error, as text or JSON.
//!
//! A background thread writes buffered lines every [`WRITE_INTERVAL`], so that a request does not wait for a terminal
//! or a pipe. Warnings and errors are written immediately, and the rest before the process ends.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogFormat, Observe};

/// How long lines are buffered. A busy server then writes hundreds at a time.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);

/// When this many bytes are buffered, the thread that logs writes them itself.
const MAX_BUFFERED: usize = 256 * 1024;

/// Starts logging. [`Logs::flush`] has to be called before the process ends.
pub(super) fn start(observe: &Observe) -> Logs {
    let logs = Logs::start();
    let filter = EnvFilter::builder().parse_lossy(&observe.log_filter);
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs.clone()).with_ansi(is_terminal());
    // Fails only when a subscriber is already set, as in tests.
    let _ = match observe.log_format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).with_ansi(false).try_init(),
    };
    log_panics();
    logs
}

fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Logs panics as error lines, with their source location.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("(no text)");
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(location, %backtrace, "panic: {text}");
    }));
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Mutex<Vec<u8>>,
    filled: Condvar,
    /// Locked while writing, so that batches stay in order.
    writing: Mutex<()>,
}

/// The buffer of log lines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs(Arc<Buffer>);

impl Logs {
    fn start() -> Self {
        let logs = Self::default();
        let writer = logs.clone();
        let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                let mut lines = writer.lines();
                while lines.is_empty() {
                    lines = writer.0.filled.wait(lines).unwrap_or_else(PoisonError::into_inner);
                }
                drop(lines);
                std::thread::sleep(WRITE_INTERVAL);
                writer.flush();
            }
        });
        // Without the thread, lines are still written when the buffer is full and at the end.
        drop(spawned);
        logs
    }

    /// Writes all buffered lines.
    pub(super) fn flush(&self) {
        let _one_at_a_time = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.lines());
        // A failure can't be reported anywhere.
        let _ = io::stderr().write_all(&lines);
    }

    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line that is being formatted.
#[derive(Debug)]
pub(super) struct Line<'a> {
    logs: &'a Logs,
    flush_on_drop: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.logs.lines();
        if lines.is_empty() {
            self.logs.0.filled.notify_one();
        }
        lines.extend_from_slice(bytes);
        self.flush_on_drop |= lines.len() >= MAX_BUFFERED;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.flush_on_drop {
            self.logs.flush();
        }
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { logs: self, flush_on_drop: false }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { logs: self, flush_on_drop: *meta.level() <= Level::WARN }
    }
}
