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
    let has_colors = io::stderr().is_terminal() && matches!(observe.log_format, LogFormat::Text);
    let logs = Logs::start(has_colors);
    let filter = EnvFilter::builder().parse_lossy(&observe.log_filter);
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs.clone()).with_ansi(has_colors);
    // Fails only when a subscriber is already set, as in tests.
    let _ = match observe.log_format {
        LogFormat::Text => subscriber.try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).try_init(),
    };
    log_panics();
    logs
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
    has_colors: bool,
}

/// The buffer of log lines. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs(Arc<Buffer>);

impl Logs {
    fn start(has_colors: bool) -> Self {
        let logs = Self(Arc::new(Buffer { has_colors, ..Buffer::default() }));
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
        one_line(bytes, self.logs.0.has_colors, &mut lines);
        self.flush_on_drop |= lines.len() >= MAX_BUFFERED;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a line, which the formatter writes in one piece, with its control characters escaped: texts of plugins, scripts and
/// other servers must not look like further lines. With colours, the formatter has escaped those of the texts itself.
fn one_line(line: &[u8], has_colors: bool, out: &mut Vec<u8>) {
    let (text, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |text| (text, b"\n"));
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t' && !(has_colors && byte == 0x1b);
    for part in text.split_inclusive(|byte| is_control(*byte)) {
        match part.split_last() {
            Some((last, before)) if is_control(*last) => {
                out.extend_from_slice(before);
                out.extend(std::ascii::escape_default(*last));
            }
            _ => out.extend_from_slice(part),
        }
    }
    out.extend_from_slice(end);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_texts_contain() {
        let line = |text: &str, has_colors| {
            let mut out = Vec::new();
            one_line(text.as_bytes(), has_colors, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line("INFO a: é\tb\n", false), "INFO a: é\tb\n");
        assert_eq!(
            line("a\r\n2026 ERROR forged\u{1b}[2K\0\u{7f}\n", false),
            "a\\r\\n2026 ERROR forged\\x1b[2K\\x00\\x7f\n"
        );
        assert_eq!(line("\u{1b}[32mINFO\u{1b}[0m a\nb\n", true), "\u{1b}[32mINFO\u{1b}[0m a\\nb\n");
        assert_eq!(line("\n\n", false), "\\n\n");
    }
}
