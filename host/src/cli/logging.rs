//! The log: lines on standard error, as text or JSON.
//!
//! Lines are gathered and written a few times a second by a thread of their own, so that a request never waits
//! for a terminal or a pipe. Warnings and errors are written at once, and so is everything before the process
//! ends.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogFormat, Observe};

/// How long a line may wait for others. Nobody notices, and a busy server writes once for hundreds.
const GATHER: Duration = Duration::from_millis(50);

/// Gathered bytes that are written at once, whoever is asking: the bound of what may wait.
const MOST: usize = 256 * 1024;

/// Starts logging. Lines that were not written yet are when [`Logs::flush`] is called.
pub(super) fn start(observe: &Observe) -> Logs {
    let logs = Logs::start();
    let filter = EnvFilter::builder().parse_lossy(&observe.log_filter);
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs.clone()).with_ansi(is_terminal());
    // Fails only when a subscriber is set already, as in tests.
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

/// A panic is a line of the log like everything else, with its place.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("(no text)");
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(place, %backtrace, "panic: {text}");
    }));
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Vec<u8>>,
    filled: Condvar,
    /// Held while writing, so that two batches don't change places.
    writing: Mutex<()>,
}

/// Where lines are gathered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs(Arc<Shared>);

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
                std::thread::sleep(GATHER);
                writer.flush();
            }
        });
        // Without the thread lines still come out, whenever enough have gathered and at the end.
        drop(spawned);
        logs
    }

    /// Writes everything that has gathered.
    pub(super) fn flush(&self) {
        let _one_at_a_time = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.lines());
        // A log that can't be written can't be complained about either.
        let _ = io::stderr().write_all(&lines);
    }

    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line on its way.
#[derive(Debug)]
pub(super) struct Line<'a> {
    logs: &'a Logs,
    at_once: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.logs.lines();
        if lines.is_empty() {
            self.logs.0.filled.notify_one();
        }
        lines.extend_from_slice(bytes);
        self.at_once |= lines.len() >= MOST;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.at_once {
            self.logs.flush();
        }
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { logs: self, at_once: false }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { logs: self, at_once: *meta.level() <= Level::WARN }
    }
}
