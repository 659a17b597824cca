//! What a script must be before it is stored.

use http::StatusCode;

use crate::http::Error;
use crate::scripts::{CompiledScript, Engine, FailureKind, Trigger};

/// Bytes of a description.
const MAX_DESCRIPTION: usize = 300;

/// Runs the script once in a bare sandbox, as every run of it will begin: it must load and define `handle`.
pub(super) async fn check_source(
    engine: &Engine,
    trigger: Trigger,
    source: &str,
) -> Result<CompiledScript, Error> {
    engine.check(trigger, source).await.map_err(|failure| match failure.kind {
        FailureKind::Busy => Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text()),
        FailureKind::Internal => Error::internal(failure),
        _ => Error::bad_request(format!("the script does not load: {}", failure.message)),
    })
}

pub(super) fn check_type(script_type: &str) -> Result<(), Error> {
    if script_type == "lua" {
        return Ok(());
    }
    Err(Error::bad_request(format!("script_type must be lua, not {script_type}")))
}

/// An empty description counts as none.
pub(super) fn check_description(description: Option<String>) -> Result<Option<String>, Error> {
    match description {
        Some(text) if text.len() > MAX_DESCRIPTION => {
            Err(Error::bad_request(format!("description is longer than {MAX_DESCRIPTION} bytes")))
        }
        other => Ok(other.filter(|text| !text.is_empty())),
    }
}

/// The methods that a script names in `xrpc.query("…")` and `xrpc.procedure("…")`, outside comments and strings,
/// sorted; `None` when there are none.
pub(super) fn outbound_xrpcs(source: &str) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = skip_comment(rest) {
            rest = after;
        } else if next == '"' || next == '\'' {
            rest = string_literal(rest).1;
        } else if let Some(after) = call_of_xrpc(rest) {
            let (nsid, after) = string_literal(after);
            found.extend(nsid.map(str::to_owned));
            rest = after;
        } else if next.is_ascii_alphanumeric() || next == '_' {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        } else {
            rest = &rest[next.len_utf8()..];
        }
    }
    found.sort();
    found.dedup();
    (!found.is_empty()).then_some(found)
}

/// What follows a comment that begins here.
fn skip_comment(text: &str) -> Option<&str> {
    let body = text.strip_prefix("--")?;
    if let Some(level) = body.strip_prefix('[').map(|b| b.len() - b.trim_start_matches('=').len())
        && body[1 + level..].starts_with('[')
    {
        let end = format!("]{}]", "=".repeat(level));
        return Some(body.find(&end).map_or("", |at| &body[at + end.len()..]));
    }
    Some(body.find('\n').map_or("", |at| &body[at..]))
}

/// What follows `xrpc.query(` or `xrpc.procedure(`, up to a string literal.
fn call_of_xrpc(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("xrpc")?.trim_start().strip_prefix('.')?.trim_start();
    let rest = rest.strip_prefix("query").or_else(|| rest.strip_prefix("procedure"))?.trim_start();
    let rest = rest.strip_prefix('(').map_or(rest, str::trim_start);
    rest.starts_with(['"', '\'']).then_some(rest)
}

/// The content of a quoted literal that begins here, if it has no escapes, and what follows it.
fn string_literal(text: &str) -> (Option<&str>, &str) {
    let Some(quote) = text.chars().next() else { return (None, "") };
    let body = &text[1..];
    let mut escaped = false;
    let mut plain = true;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => (escaped, plain) = (true, false),
            '\n' => return (None, &body[at..]),
            c if c == quote => return (plain.then_some(&body[..at]), &body[at + 1..]),
            _ => {}
        }
    }
    (None, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_methods_a_script_calls() {
        let source = r#"
            -- xrpc.query("com.example.comment")
            --[[ xrpc.query("com.example.long")
            ]]
            local s = "xrpc.query('com.example.string')"
            local a = xrpc.query("com.example.b", {})
            local b = xrpc.procedure('com.example.a', {})
            local c = xrpc . query "com.example.b"
            local d = my_xrpc.query("com.example.other")
            local e = xrpc.query(name)
        "#;
        assert_eq!(outbound_xrpcs(source).unwrap(), ["com.example.a", "com.example.b"]);
        assert_eq!(outbound_xrpcs("return 1"), None);
    }

    #[test]
    fn never_panics_on_unfinished_text() {
        for source in ["--[==[", "\"abc", "'a\\", "xrpc.query(", "xrpc.query(\"ä", "--"] {
            assert_eq!(outbound_xrpcs(source), None, "{source}");
        }
    }

    #[test]
    fn descriptions_have_a_bound_and_empty_is_none() {
        assert_eq!(check_description(Some(String::new())).unwrap(), None);
        assert!(check_description(Some("x".repeat(300))).unwrap().is_some());
        assert_eq!(check_description(Some("x".repeat(301))).unwrap_err().status, 400);
    }
}
