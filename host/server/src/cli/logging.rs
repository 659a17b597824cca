//! Writes log lines to standard error, as text or JSON.
//!
//! A background thread writes buffered lines every [`WRITE_INTERVAL`], so that a request does not wait for a terminal
//! or a pipe. Warnings and errors are written immediately, and the rest before the process ends.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Dispatch, Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Format;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::request_lines::RequestLines;
use belvedere_instance::config::{LogFormat, Observe};

/// Time for which lines are buffered. A busy server then writes hundreds at a time.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);

/// When this many bytes are buffered, the thread that logs writes them itself.
const MAX_BUFFERED: usize = 256 * 1024;

/// The form of log lines as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    Full,
    /// Requests are short lines for the author of an app.
    Short,
}

/// Starts logging. [`Logs::flush`] has to be called before the process ends.
pub(super) fn start(observe: &Observe, lines: Lines) -> Logs {
    let logs = Logs::start();
    // Fails only when a subscriber is already set, as in tests.
    let _ = dispatch(&logs, observe, lines).try_init();
    log_panics();
    logs
}

/// Formats events for `logs`. Without colours: on a terminal their control characters could not be distinguished from
/// those of texts.
fn dispatch(logs: &Logs, observe: &Observe, lines: Lines) -> Dispatch {
    let filter = EnvFilter::builder().parse_lossy(&observe.log_filter);
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs.clone()).with_ansi(false);
    match observe.log_format {
        LogFormat::Text if lines == Lines::Short => {
            let format = RequestLines(Format::default().with_ansi(false));
            Dispatch::new(subscriber.event_format(format).finish())
        }
        LogFormat::Text => Dispatch::new(subscriber.finish()),
        LogFormat::Json => Dispatch::new(subscriber.json().flatten_event(true).finish()),
    }
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
        one_line(&String::from_utf8_lossy(bytes), &mut lines);
        self.flush_on_drop |= lines.len() >= MAX_BUFFERED;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a line, which the formatter writes in one piece, with its control characters escaped: texts of plugins, scripts and
/// other servers must not look like further lines, nor command a terminal. The escapes are those of JSON, so that a line of
/// JSON keeps its meaning.
fn one_line(line: &str, out: &mut Vec<u8>) {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let mut escaped = String::with_capacity(line.len());
    for character in text.chars() {
        // U+2028 and U+2029 end lines too. All these have at most four digits.
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            // Writing to a string can't fail.
            let _ = match character {
                '\n' => escaped.write_str("\\n"),
                '\r' => escaped.write_str("\\r"),
                '\t' => escaped.write_str("\\t"),
                other => write!(escaped, "\\u{:04x}", u32::from(other)),
            };
        } else {
            escaped.push(character);
        }
    }
    out.extend_from_slice(escaped.as_bytes());
    out.extend_from_slice(end.as_bytes());
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

    /// Characters that others may put into a text: a line break, the beginning of a command of terminals in one byte
    /// and in two, and other ends of lines.
    const HOSTILE: &str = "a\r\n2026 ERROR forged\u{1b}[2K\0\u{7f}\u{9b}2K\u{85}\u{2028}b\u{2029}";

    const ESCAPED: &str = r"a\r\n2026 ERROR forged\u001b[2K\u0000\u007f\u009b2K\u0085\u2028b\u2029";

    /// The lines of an event with hostile texts.
    fn logged(log_format: LogFormat) -> String {
        let logs = Logs::default();
        let observe = Observe { log_filter: "info".to_owned(), log_format, metrics_addr: None };
        tracing::dispatcher::with_default(&dispatch(&logs, &observe, Lines::Full), || {
            let span = tracing::info_span!("span", inside = HOSTILE);
            let _entered = span.enter();
            let error = io::Error::other(HOSTILE);
            tracing::info!(raw = HOSTILE, shown = %HOSTILE, debug = ?HOSTILE, %error, "{HOSTILE}");
        });
        let lines = logs.lines().clone();
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_its_texts_contain() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let logged = logged(format);
            let line = logged.strip_suffix('\n').unwrap();
            let is_plain = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
            assert!(line.chars().all(is_plain), "{line:?}");
            assert!(line.contains(r"forged\u001b[2K"), "{line}");
        }
        let json: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).unwrap();
        for field in [&json["raw"], &json["message"], &json["span"]["inside"]] {
            assert_eq!(*field, HOSTILE);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let line = |text: &str| {
            let mut out = Vec::new();
            one_line(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line("INFO a: é b\n"), "INFO a: é b\n");
        assert_eq!(line(&format!("{HOSTILE}\n")), format!("{ESCAPED}\n"));
        assert_eq!(line("\n\n"), "\\n\n");
    }
}
