//! Parses script ids. An id, `<kind>:<subject>`, names what triggers the script (`admin-api.md` §4.1).

use std::fmt;

/// The kinds of requests and events that trigger scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerKind {
    Query,
    /// A query that a document answers in place of a script.
    View,
    Procedure,
    /// Makes the messages of a subscription.
    Subscription,
    RecordCreate,
    RecordUpdate,
    RecordDelete,
    RecordIndex,
    LabelApply,
    JobRun,
    /// Runs as a job, at the times that it says.
    Schedule,
    /// Runs once, when it is saved.
    Setup,
    /// Other scripts require it, and nothing triggers it.
    Library,
}

impl TriggerKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Query,
        Self::View,
        Self::Procedure,
        Self::Subscription,
        Self::RecordCreate,
        Self::RecordUpdate,
        Self::RecordDelete,
        Self::RecordIndex,
        Self::LabelApply,
        Self::JobRun,
        Self::Schedule,
        Self::Setup,
        Self::Library,
    ];

    /// Whether its runs are jobs.
    pub fn is_job(self) -> bool {
        matches!(self, Self::JobRun | Self::Schedule)
    }

    /// Whether its runs may take as much as those of jobs.
    pub fn is_long(self) -> bool {
        self.is_job() || self == Self::Setup
    }

    /// Whether its runs only read: everyone may cause them, and they may be repeated.
    pub fn only_reads(self) -> bool {
        matches!(self, Self::Query | Self::Subscription)
    }

    /// The name of this trigger in a script's context; all record events are `record`.
    pub fn context(self) -> &'static str {
        match self {
            Self::Query | Self::View => "query",
            Self::Procedure => "procedure",
            Self::Subscription => "subscription",
            Self::RecordCreate | Self::RecordUpdate | Self::RecordDelete | Self::RecordIndex => "record",
            Self::LabelApply => "label",
            Self::JobRun | Self::Schedule => "job",
            Self::Setup => "setup",
            Self::Library => "library",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "xrpc.query",
            Self::View => "xrpc.view",
            Self::Procedure => "xrpc.procedure",
            Self::Subscription => "xrpc.subscription",
            Self::RecordCreate => "record.create",
            Self::RecordUpdate => "record.update",
            Self::RecordDelete => "record.delete",
            Self::RecordIndex => "record.index",
            Self::LabelApply => "labeler.apply",
            Self::JobRun => "job.run",
            Self::Schedule => "schedule",
            Self::Setup => "setup",
            Self::Library => "lib",
        }
    }
}

/// Tells which triggers have a script, for callers that run none.
pub trait ScriptBindings: fmt::Debug + Send + Sync {
    /// Whether a script is bound to the trigger with this id.
    fn has(&self, id: &str) -> bool;
}

/// A well-formed trigger id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trigger {
    kind: TriggerKind,
    id: Box<str>,
}

/// Error for a text that is not a trigger id. The message goes into a 400 response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrigger {
    #[error("invalid script id: it has the form <trigger>:<subject>")]
    NoSubject,
    #[error("invalid script id: unknown trigger {0:?}")]
    UnknownKind(String),
    #[error("invalid script id: {0:?} is not an NSID")]
    NotAnNsid(String),
    #[error("invalid script id: {0:?} is not a job type (a-z, 0-9, '.', '_', '-'; at most 128 characters)")]
    NotAJobType(String),
    #[error("invalid script id: {0:?} is not a name (a-z, 0-9, '_', '-'; at most 128 characters)")]
    NotAName(String),
}

/// The protocol's limit for an NSID. Ids are database keys and echoed in errors, so they are bounded.
const MAX_NSID_LENGTH: usize = 317;
const MAX_JOB_TYPE_LENGTH: usize = 128;
/// The subject for labels on accounts.
const ACTOR: &str = "_actor";

impl Trigger {
    /// Reads a script id. Split at the first `:`; the subject's syntax depends on the kind.
    ///
    /// # Errors
    /// When the kind is unknown or the subject malformed.
    pub fn parse(id: &str) -> Result<Self, InvalidTrigger> {
        let (kind, subject) =
            id.split_once(':').filter(|(_, s)| !s.is_empty()).ok_or(InvalidTrigger::NoSubject)?;
        let kind = TriggerKind::ALL
            .into_iter()
            .find(|k| k.as_str() == kind)
            .ok_or_else(|| InvalidTrigger::UnknownKind(truncated(kind)))?;
        match kind {
            TriggerKind::JobRun if !is_job_type(subject) => {
                return Err(InvalidTrigger::NotAJobType(truncated(subject)));
            }
            TriggerKind::Schedule | TriggerKind::Setup | TriggerKind::Library
                if !is_job_type(subject) || subject.contains('.') =>
            {
                return Err(InvalidTrigger::NotAName(truncated(subject)));
            }
            TriggerKind::JobRun | TriggerKind::Schedule | TriggerKind::Setup | TriggerKind::Library => {}
            TriggerKind::LabelApply if subject == ACTOR => {}
            _ if !is_loose_nsid(subject) => return Err(InvalidTrigger::NotAnNsid(truncated(subject))),
            _ => {}
        }
        Ok(Self { kind, id: id.into() })
    }

    /// The trigger of a query method's script.
    ///
    /// # Errors
    /// When `nsid` is not an NSID.
    pub fn query(nsid: &str) -> Result<Self, InvalidTrigger> {
        Self::parse(&format!("{}:{nsid}", TriggerKind::Query.as_str()))
    }

    /// The trigger whose script or view answers the same calls: a query has one of the two.
    pub fn counterpart(&self) -> Option<Self> {
        let kind = match self.kind {
            TriggerKind::Query => TriggerKind::View,
            TriggerKind::View => TriggerKind::Query,
            _ => return None,
        };
        Some(Self { kind, id: format!("{}:{}", kind.as_str(), self.subject()).into() })
    }

    pub fn kind(&self) -> TriggerKind {
        self.kind
    }

    /// The whole id, as stored.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The text after the first `:`.
    pub fn subject(&self) -> &str {
        &self.id[self.kind.as_str().len() + 1..]
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

/// At least two segments, each a letter and then letters, digits or hyphens. Looser than the protocol's NSID, so
/// that a script can be saved before its lexicon's name is final.
fn is_loose_nsid(text: &str) -> bool {
    let segment = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    text.len() <= MAX_NSID_LENGTH && text.contains('.') && text.split('.').all(segment)
}

fn is_job_type(text: &str) -> bool {
    let first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= MAX_JOB_TYPE_LENGTH
        && text.bytes().next().is_some_and(first)
        && text.bytes().all(|b| first(b) || matches!(b, b'.' | b'_' | b'-'))
}

/// The caller's text, cut to fit an error message.
fn truncated(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind() {
        for (id, kind, subject) in [
            ("xrpc.query:com.example.get", TriggerKind::Query, "com.example.get"),
            ("xrpc.view:com.example.get", TriggerKind::View, "com.example.get"),
            ("xrpc.procedure:com.example.do-it", TriggerKind::Procedure, "com.example.do-it"),
            ("xrpc.subscription:com.example.watch", TriggerKind::Subscription, "com.example.watch"),
            ("record.create:a.b", TriggerKind::RecordCreate, "a.b"),
            ("record.update:a.b2", TriggerKind::RecordUpdate, "a.b2"),
            ("record.delete:A.B", TriggerKind::RecordDelete, "A.B"),
            ("record.index:a.b.c.d", TriggerKind::RecordIndex, "a.b.c.d"),
            ("labeler.apply:a.b", TriggerKind::LabelApply, "a.b"),
            ("labeler.apply:_actor", TriggerKind::LabelApply, "_actor"),
            ("job.run:0nightly.sync_all-2", TriggerKind::JobRun, "0nightly.sync_all-2"),
            ("lib:posts_2-a", TriggerKind::Library, "posts_2-a"),
            ("setup:tables", TriggerKind::Setup, "tables"),
            ("schedule:nightly", TriggerKind::Schedule, "nightly"),
        ] {
            let trigger = Trigger::parse(id).unwrap();
            assert_eq!((trigger.kind(), trigger.subject(), trigger.id()), (kind, subject, id));
        }
        assert_eq!(Trigger::query("a.b").unwrap().id(), "xrpc.query:a.b");
    }

    #[test]
    fn errors_name_the_reason() {
        for (id, why) in [
            ("", "form"),
            ("xrpc.query", "form"),
            ("xrpc.query:", "form"),
            ("xrpc.Query:a.b", "unknown trigger"),
            (":a.b", "unknown trigger"),
            ("xrpc.query:a", "not an NSID"),
            ("xrpc.query:a..b", "not an NSID"),
            ("xrpc.query:a.1b", "not an NSID"),
            ("xrpc.query:a.b:c", "not an NSID"),
            ("xrpc.query:_actor", "not an NSID"),
            ("xrpc.query:a.b_c", "not an NSID"),
            ("job.run:Sync", "not a job type"),
            ("job.run:-a", "not a job type"),
            ("lib:a.b", "not a name"),
            ("setup:A", "not a name"),
            (&format!("job.run:{}", "a".repeat(129)), "not a job type"),
            (&format!("record.index:a.{}", "b".repeat(400)), "not an NSID"),
        ] {
            let error = Trigger::parse(id).unwrap_err().to_string();
            assert!(error.contains(why), "{id}: {error}");
        }
    }
}
