//! The two contracts of scripts. v2: `handle()` reads globals. v3: `handle(input, ctx)` has arguments, and gets what it uses with `require`
//! (`docs/scripting/v3.md`).

mod arguments;
pub(super) mod globals;
pub(super) mod modules;
mod tokens;

pub(super) use globals::check_globals;
pub(super) use modules::{is_module, unknown_module};

use std::sync::Arc;

use super::raised::{self, Field};
use super::{FailureKind, ScriptFailure};
use crate::scripts::failure::FailureAnswer;
use tokens::handle_parameters;

/// Begins the message of an error of a v3 script that the caller gets as a 401.
const AUTH_ERROR: &str = "AUTH_ERROR:";

/// The contract that a source is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contract {
    V2,
    V3,
}

impl Contract {
    /// The contract that the head of a source names (`-- contract: v3`), or else that of its function `handle`. Only the parameters
    /// `input` and `ctx` make it v3: v2 ignores parameters, so a stored script may have any others.
    pub(super) fn of(source: &str) -> Self {
        let named = named(source);
        named.unwrap_or_else(|| {
            let parameters = handle_parameters(source);
            let is = |at: usize, name| {
                parameters.get(at).is_some_and(|given| given.trim_start_matches('_') == name)
            };
            if is(0, "input") || is(1, "ctx") { Self::V3 } else { Self::V2 }
        })
    }

    /// The failure of a run. In v3 the text after `AUTH_ERROR:` is the answer to the caller.
    pub(super) fn failure(self, failure: ScriptFailure) -> ScriptFailure {
        let can_answer = self == Self::V3 && failure.kind == FailureKind::Runtime && failure.answer.is_none();
        let Some(text) = auth_error(&failure.message).filter(|_| can_answer) else { return failure };
        let answer = raised::answer(Some(401), Field::Text(text.as_bytes().to_vec()), Field::Absent);
        match answer {
            Ok(answer) => ScriptFailure { answer: Some(Arc::new(FailureAnswer::Raised(answer))), ..failure },
            Err(reason) => {
                let message = format!("{} is no answer: {reason}", failure.message);
                ScriptFailure { message, ..failure }
            }
        }
    }
}

/// The contract that a comment above the code names.
fn named(source: &str) -> Option<Contract> {
    let head =
        source.lines().map(str::trim).take_while(|line| line.is_empty() || line.starts_with(['-', '#']));
    let names = head.filter_map(|line| line.strip_prefix("--")?.trim_start().strip_prefix("contract:"));
    names.map(str::trim).find_map(|name| match name {
        "v2" => Some(Contract::V2),
        "v3" => Some(Contract::V3),
        _ => None,
    })
}

/// The text after `AUTH_ERROR:`, which only a position precedes.
fn auth_error(message: &str) -> Option<&str> {
    let (before, text) = message.split_once(AUTH_ERROR)?;
    let is_position = before.is_empty() || (before.ends_with(": ") && !before.trim_end().contains(' '));
    is_position.then(|| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_or_the_parameters_decide() {
        for source in [
            "function handle(input, ctx) end",
            "local x = 1\nfunction handle ( input ) end",
            "function handle(_, ctx) end",
            "function handle(_input, _ctx) end",
            "handle = function(input, ctx) end",
            "-- a note\n\n-- contract: v3\nfunction handle() end",
            "local function f() if x then end end function handle(input) end",
        ] {
            assert_eq!(Contract::of(source), Contract::V3, "{source}");
        }
        for source in [
            "function handle() end",
            "function handle(event) end",
            "function handle(...) end",
            "function handle(a, b) end",
            "-- function handle(input, ctx) end\nfunction handle() end",
            "local s = 'function handle(input)' function handle() end",
            "local function handle(input, ctx) end",
            "function other.handle(input, ctx) end function handle() end",
            "function f() function handle(input) end end",
            "-- contract: v2\nfunction handle(input, ctx) end",
            "function handle() end\n-- contract: v3",
            "function handle(",
            "handle",
            "",
        ] {
            assert_eq!(Contract::of(source), Contract::V2, "{source}");
        }
    }

    #[test]
    fn only_a_position_precedes_an_auth_error() {
        assert_eq!(auth_error("AUTH_ERROR: log in"), Some("log in"));
        assert_eq!(auth_error("xrpc.query:com.example.get:3: AUTH_ERROR:no"), Some("no"));
        assert_eq!(auth_error("xrpc.query:com.example.get:3: I said AUTH_ERROR:no"), None);
        assert_eq!(auth_error("something else"), None);
    }
}
