//! `belvedere script tail`: prints the log lines and the failures of a server's scripts as they occur, from the stream of its event
//! log. After a lost connection it reads from the list what occurred meanwhile.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use url::form_urlencoded::Serializer;

use super::super::remote::{Remote, Server};
use super::super::{print_line, print_stderr};
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::TriggerKind;

/// The category of the events of scripts.
const CATEGORY: &str = "script";

/// Events of scripts that are no runs of them.
const OF_OPERATORS: [&str; 4] = ["script.created", "script.updated", "script.deleted", "script.dry_run"];

/// Time before another attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// Attempts in a row that may fail: a server restarts within this time.
const MAX_FAILURES: u32 = 60;

/// Events of one request of the list.
const PAGE: usize = 100;

/// Events that are read from the list at once: further ones are left out, with a notice.
const MAX_PAST: usize = 1_000;

/// Ids of printed events that are kept, so that none is printed twice.
const KNOWN_IDS: usize = 4 * MAX_PAST;

/// Bytes of an event in the stream: more than any has.
const MAX_MESSAGE: usize = 4 << 20;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only of triggers that match, where * is any text: 'xrpc.*' or '*listNotes'
    #[arg(long, value_name = "GLOB")]
    trigger: Option<String>,
    /// Only events of this severity and above
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    level: Level,
    /// First print the events since this time, as RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print events as JSON, one on each line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    /// The severities from this one on, as the API takes them.
    fn severities(self) -> &'static str {
        match self {
            Self::Info => "info,warn,error",
            Self::Warn => "warn,error",
            Self::Error => "error",
        }
    }
}

#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct Event {
    id: String,
    #[serde(rename = "event_type")]
    kind: String,
    severity: String,
    subject: Option<String>,
    #[serde(default)]
    detail: Value,
    created_at: String,
}

/// Prints events until the process ends.
///
/// # Errors
/// When the first request fails, or too many in a row later.
pub(super) async fn run(options: &Options, config: &Config) -> anyhow::Result<ExitCode> {
    let remote = Remote::new(&options.server, "events:read", config)?;
    let mut tail = Tail { options, remote, since: options.since.clone(), known: Known::default() };
    tail.start().await?;
    loop {
        if let Err(error) = tail.follow().await {
            tracing::debug!(%error, "the stream of events has ended");
        }
        tokio::time::sleep(PAUSE).await;
        let mut failures = 0;
        while let Err(error) = tail.catch_up().await {
            failures += 1;
            if failures == MAX_FAILURES {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

struct Tail<'a> {
    options: &'a Options,
    remote: Remote,
    /// The time from which events are not known; `None` when the log had none.
    since: Option<String>,
    known: Known,
}

impl Tail<'_> {
    /// Prints the events since the given time, or notes which is the last one.
    async fn start(&mut self) -> anyhow::Result<()> {
        if self.since.is_some() {
            return self.catch_up().await;
        }
        let page: Page = self.remote.get(&path("/admin/events", &[("limit", "1")])).await?;
        if let Some(newest) = page.events.first() {
            let event: Event = serde_json::from_str(newest.get())?;
            self.known.add(&event.id);
            self.since = Some(event.created_at);
        }
        Ok(())
    }

    /// Prints the events of the list that were not printed, the oldest first.
    async fn catch_up(&mut self) -> anyhow::Result<()> {
        let limit = PAGE.to_string();
        let mut past = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = vec![("limit", &*limit)];
            query.extend(self.conditions());
            query.extend(self.since.as_deref().map(|since| ("after", since)));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: Page = self.remote.get(&path("/admin/events", &query)).await?;
            past.extend(page.events);
            cursor = page.cursor;
            if cursor.is_none() || past.len() >= MAX_PAST {
                break;
            }
        }
        if cursor.is_some() {
            print_stderr(&format_args!("more than {MAX_PAST} events occurred; older ones are left out"));
        }
        for event in past.iter().rev() {
            self.print(event.get());
        }
        Ok(())
    }

    /// Prints events of the stream until it ends.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut stream = self.remote.open(&path("/admin/events/stream", &self.conditions())).await?;
        // Between the last look and the first byte of the stream.
        let mut is_behind = true;
        let mut messages = Messages::default();
        while let Some(chunk) = stream.chunk().await? {
            for message in messages.add(&chunk)? {
                match message {
                    Message::Event(json) => self.print(&json),
                    Message::Missed => is_behind = true,
                }
            }
            if std::mem::take(&mut is_behind) {
                self.catch_up().await?;
            }
        }
        Ok(())
    }

    fn conditions(&self) -> [(&'static str, &'static str); 2] {
        [("category", CATEGORY), ("severity", self.options.level.severities())]
    }

    /// Prints an event that was not printed and is wanted.
    fn print(&mut self, json: &str) {
        let Ok(event) = serde_json::from_str::<Event>(json) else { return };
        if !self.known.add(&event.id) {
            return;
        }
        if self.since.as_ref().is_none_or(|since| *since < event.created_at) {
            self.since = Some(event.created_at.clone());
        }
        let trigger = event.trigger();
        let is_wanted = self.options.trigger.as_deref().is_none_or(|glob| matches(glob, &trigger));
        if !is_wanted || OF_OPERATORS.contains(&&*event.kind) {
            return;
        }
        if self.options.json {
            print_line(&json);
        } else {
            let Event { created_at, severity, .. } = &event;
            print_line(&format_args!("{created_at} {severity:<5} {}", event.text(&trigger)));
        }
    }
}

impl Event {
    /// The trigger of the script. Failures of methods name the method, and their text begins with the trigger.
    fn trigger(&self) -> String {
        let subject = self.subject.as_deref().unwrap_or_default();
        if let Some(trigger) = self.detail["trigger"].as_str() {
            return trigger.to_owned();
        }
        let error = self.detail["error"].as_str().unwrap_or_default();
        let of_kind = |kind: &TriggerKind| format!("{}:{subject}", kind.as_str());
        let kinds = [TriggerKind::Query, TriggerKind::Procedure, TriggerKind::Subscription];
        kinds.iter().map(of_kind).find(|id| error.starts_with(id)).unwrap_or_else(|| subject.to_owned())
    }

    /// The trigger, and the line of the log or the error, or else the type of the event. Errors begin with the trigger themselves.
    fn text(&self, trigger: &str) -> String {
        let found = ["message", "error"].iter().find_map(|name| self.detail[name].as_str());
        let text = found.unwrap_or(&self.kind);
        let has_trigger = text.strip_prefix(trigger).is_some_and(|rest| rest.starts_with(':'));
        let text = if has_trigger { text.to_owned() } else { format!("{trigger}: {text}") };
        // Control characters could rewrite lines of a terminal.
        text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
    }
}

/// Ids of the last events.
#[derive(Default)]
struct Known {
    ids: HashSet<String>,
    in_order: VecDeque<String>,
}

impl Known {
    /// Whether the id is new.
    fn add(&mut self, id: &str) -> bool {
        if !self.ids.insert(id.to_owned()) {
            return false;
        }
        self.in_order.push_back(id.to_owned());
        if self.in_order.len() > KNOWN_IDS
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

/// A message of the stream.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    /// An event, as JSON.
    Event(String),
    /// Some events were left out.
    Missed,
}

/// The messages in a stream of server-sent events, as the server writes them.
#[derive(Default)]
struct Messages(Vec<u8>);

impl Messages {
    /// Adds bytes, and takes the messages that are complete. Comments are left out.
    fn add(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<Message>> {
        self.0.extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some(end) = self.0.windows(2).position(|two| two == b"\n\n") {
            let message: Vec<u8> = self.0.drain(..end + 2).collect();
            let text = String::from_utf8(message).context("the stream of events is not UTF-8")?;
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            match (field("event: "), field("data: ")) {
                (Some("missed"), _) => found.push(Message::Missed),
                (None, Some(data)) => found.push(Message::Event(data.to_owned())),
                _ => {}
            }
        }
        anyhow::ensure!(self.0.len() <= MAX_MESSAGE, "an event is larger than {MAX_MESSAGE} bytes");
        Ok(found)
    }
}

fn path(path: &str, query: &[(&str, &str)]) -> String {
    format!("{path}?{}", Serializer::new(String::new()).extend_pairs(query).finish())
}

/// Whether a text matches a pattern, in which `*` is any text.
fn matches(glob: &str, text: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_is_any_text() {
        for (glob, text, expected) in [
            ("xrpc.*", "xrpc.query:com.example.a", true),
            ("*:com.*.a", "xrpc.query:com.example.a", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("xrpc.query:com.example.a", "xrpc.query:com.example.ab", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn messages_come_in_any_parts() {
        let mut messages = Messages::default();
        assert_eq!(messages.add(b": open\n\nid: 1\nda").unwrap(), []);
        let found = messages.add(b"ta: {\"a\":1}\n\nevent: missed\ndata: {}\n\n:").unwrap();
        assert_eq!(found, [Message::Event("{\"a\":1}".to_owned()), Message::Missed]);
        assert!(messages.add(&vec![b'x'; MAX_MESSAGE + 1]).is_err());
    }

    #[test]
    fn a_failure_of_a_method_has_the_trigger_of_its_text() {
        let event = |subject: &str, detail: Value| Event {
            id: String::new(),
            kind: "script.error".to_owned(),
            severity: "error".to_owned(),
            subject: Some(subject.to_owned()),
            detail,
            created_at: String::new(),
        };
        let error = "xrpc.procedure:com.example.a:3: it\u{1b}[2J broke";
        let failed = event("com.example.a", json!({ "error": error }));
        assert_eq!(failed.trigger(), "xrpc.procedure:com.example.a");
        assert_eq!(failed.text(&failed.trigger()), "xrpc.procedure:com.example.a:3: it\u{fffd}[2J broke");
        assert_eq!(event("com.example.a", json!({})).trigger(), "com.example.a");
        let logged = event("x", json!({ "trigger": "job.run:x", "message": "m" }));
        assert_eq!(logged.text(&logged.trigger()), "job.run:x: m");
    }
}
