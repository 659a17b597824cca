//! The ways in which a run can fail, and the texts of a failure that a caller may see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::limits;
use belvedere_base::error_text::cut;
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::trigger::Trigger;

/// The kind of a failure, which decides the response and whether to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The source does not parse, or is not source at all.
    Syntax,
    /// The chunk defines no function `handle`.
    MissingHandle,
    /// An uncaught error, or a result that is not JSON.
    Runtime,
    /// Instructions, fuel or guest time ran out.
    Limit,
    /// The memory cap was reached and the error was not caught.
    Memory,
    /// No instance or no memory became free in time. A run that got no more memory had begun. The response is 503.
    Busy,
    /// The API client has used up its share of the processor: nothing was run. The response is 429.
    Throttled,
    /// The engine itself failed; never the script's fault.
    Internal,
}

impl FailureKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::MissingHandle => "missing_handle",
            Self::Runtime => "runtime",
            Self::Limit => "limit",
            Self::Memory => "memory",
            Self::Busy => "busy",
            Self::Throttled => "throttled",
            Self::Internal => "internal",
        }
    }
}

/// The reason for a refusal by a host function.
pub use super::bindings::belvedere::script::types::FaultCode;

impl FaultCode {
    const ALL: [Self; 6] =
        [Self::BadInput, Self::Forbidden, Self::NoSession, Self::Limit, Self::Unavailable, Self::Upstream];

    /// The name that scripts see in `fault.code`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadInput => "bad-input",
            Self::Forbidden => "forbidden",
            Self::NoSession => "no-session",
            Self::Limit => "limit",
            Self::Unavailable => "unavailable",
            Self::Upstream => "upstream",
        }
    }

    /// The code that decides whether to try again. A plugin's own codes that a later call may not raise count as
    /// [`Self::Unavailable`]. `None` for any other text: a script can put anything into `fault.code`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The modules of v3 write them in capital letters.
        match &*text.to_ascii_lowercase().replace('_', "-") {
            "rate-limited" | "timed-out" => Some(Self::Unavailable),
            "pds-error" => Some(Self::Upstream),
            text => Self::ALL.into_iter().find(|code| code.as_str() == text),
        }
    }
}

/// The answer to the caller of a method for an error that its script did not catch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureAnswer {
    /// An upstream server's answer, passed on unchanged.
    Upstream(Answer),
    /// Our answer, which is that of a method without a script: to a call of a PDS that could not be made or completed, to an
    /// invalid record, or to a refused call of a space.
    Own(Answer),
    /// The answer that the script raised.
    Raised(Answer),
}

impl FailureAnswer {
    /// The answer itself.
    pub fn to_caller(&self) -> &Answer {
        match self {
            Self::Upstream(answer) | Self::Own(answer) | Self::Raised(answer) => answer,
        }
    }
}

/// A failed run or check. `message`, `line` and `traceback` are for the log, the `script.error` event and the
/// person who saves a script; a caller of the method only ever sees [`ScriptFailure::public_text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    pub kind: FailureKind,
    /// With chunk name (the trigger id) and line in front, where Lua knows them.
    pub message: String,
    /// The script's line that was running, when there was one.
    pub line: Option<u32>,
    pub traceback: Option<String>,
    /// The code of the uncaught fault.
    pub fault: Option<FaultCode>,
    /// The answer to the caller, for errors that have one of their own.
    pub answer: Option<Arc<FailureAnswer>>,
    /// The time before another attempt, for [`FailureKind::Throttled`].
    pub retry_after: Option<Duration>,
}

impl ScriptFailure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            line: None,
            traceback: None,
            fault: None,
            answer: None,
            retry_after: None,
        }
    }

    /// Whether the same run could succeed a moment later: the failure is not the script's.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            FailureKind::Busy | FailureKind::Throttled | FailureKind::Internal => true,
            FailureKind::Runtime => match self.fault {
                Some(FaultCode::Unavailable) => true,
                Some(FaultCode::Upstream) => match self.answer.as_deref() {
                    Some(FailureAnswer::Upstream(answer)) => {
                        answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS
                    }
                    _ => false,
                },
                _ => false,
            },
            FailureKind::Syntax | FailureKind::MissingHandle | FailureKind::Limit | FailureKind::Memory => {
                false
            }
        }
    }

    /// Whether the script ended with an answer of its own: the run did what its author wanted.
    pub fn is_intended(&self) -> bool {
        matches!(self.answer.as_deref(), Some(FailureAnswer::Raised(_)))
    }

    /// Puts the trigger and the line in front of a message that does not begin with a position in the script, such as
    /// that of a limit.
    pub(super) fn located(mut self, trigger: &Trigger) -> Self {
        let id = trigger.id();
        let has_position = self.message.strip_prefix(id).is_some_and(|rest| rest.starts_with(':'));
        if let Some(line) = self.line.filter(|_| !has_position) {
            self.message.insert_str(0, &format!("{id}:{line}: "));
        }
        self
    }

    /// The `error` of the response: one of the specification's two texts, or the text for a full queue or a used-up
    /// share.
    pub fn public_text(&self) -> &'static str {
        match self.kind {
            FailureKind::Limit => "script exceeded execution time limit",
            FailureKind::Busy => "too many scripts are running",
            FailureKind::Throttled => "this client's scripts have used up their share",
            _ => "script execution failed",
        }
    }

    /// Cuts the texts that a script can make arbitrarily long.
    pub(super) fn clipped(mut self) -> Self {
        cut(&mut self.message, limits::FAILURE_TEXT_BYTES);
        if let Some(traceback) = &mut self.traceback {
            cut(traceback, limits::FAILURE_TEXT_BYTES);
        }
        self
    }
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScriptFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_texts_reveal_no_details() {
        let text = |kind| ScriptFailure::new(kind, "secret detail").public_text();
        assert_eq!(text(FailureKind::Limit), "script exceeded execution time limit");
        for kind in [
            FailureKind::Syntax,
            FailureKind::MissingHandle,
            FailureKind::Runtime,
            FailureKind::Memory,
            FailureKind::Internal,
        ] {
            assert_eq!(text(kind), "script execution failed");
        }
        assert_eq!(text(FailureKind::Busy), "too many scripts are running");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let failure = ScriptFailure::new(FailureKind::Runtime, "é".repeat(100_000)).clipped();
        assert!(failure.message.len() <= limits::FAILURE_TEXT_BYTES + '…'.len_utf8());
        assert!(failure.message.ends_with('…'));
    }
}
