//! The reason why a call of a plugin ended without an answer. Every caller may see the cause; the text is for the
//! operator.

use std::fmt;

/// The reason why a call ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub cause: FailureCause,
    /// For the operator: it may have details of the plugin, without private values.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    GuestTime,
    RunTime,
    CallTime,
    Memory,
    Unreachable,
    StackOverflow,
    Trap,
    Exit,
    Output,
    Host,
    Answer,
    Grants,
    Unsupported,
}

impl FailureCause {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GuestTime => "guest-time",
            Self::RunTime => "run-time",
            Self::CallTime => "call-time",
            Self::Memory => "memory",
            Self::Unreachable => "unreachable",
            Self::StackOverflow => "stack-overflow",
            Self::Trap => "trap",
            Self::Exit => "exit",
            Self::Output => "output",
            Self::Host => "host",
            Self::Answer => "answer",
            Self::Grants => "grants",
            Self::Unsupported => "unsupported",
        }
    }
}

/// The text that every caller may see: nothing in it comes from the plugin.
impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GuestTime => "it computed for longer than a call may",
            Self::RunTime => "it computed for longer than the run had left",
            Self::CallTime => "it took longer than a call may, waits included",
            Self::Memory => "it needs more memory than a call may have",
            Self::Unreachable => "it reached unreachable code, as a panic does",
            Self::StackOverflow => "its stack overflowed",
            Self::Trap => "it trapped",
            Self::Exit => "it exited",
            Self::Output => "it handed over more bytes than a call may",
            Self::Host => "the server refused what it asked for",
            Self::Answer => "its answer can't be used",
            Self::Grants => "the operator did not grant what it imports",
            Self::Unsupported => "it lacks the interface",
        })
    }
}

impl Failure {
    pub fn new(cause: FailureCause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }
}

/// The text for the operator.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
