//! The globals of v2 that a v3 script does not have.

use std::collections::HashSet;

use super::tokens::{Tokens, parameters};
use crate::scripts::{FailureKind, ScriptFailure};

/// The globals of v2 that runs have, each in some kinds of runs, and what v3 has instead. Sorted.
pub(in crate::scripts) const OF_RUNS: [(&str, &str); 19] = [
    ("action", "input.action"),
    ("caller_did", "ctx.caller_did"),
    ("collection", "ctx.collection, or input.collection of a record event"),
    ("cts", "input.cts"),
    ("delegate_did", "ctx.delegate_did"),
    ("did", "input.did"),
    ("env", "ctx.env"),
    ("exp", "input.exp"),
    ("input", "the first parameter of handle(input, ctx)"),
    ("job", "ctx.job, and input for the job's input"),
    ("method", "ctx.method"),
    ("neg", "input.neg"),
    ("params", "input in a query, ctx.params in a procedure"),
    ("record", "input.record"),
    ("rkey", "input.rkey"),
    ("space", "ctx.space"),
    ("src", "input.src"),
    ("uri", "input.uri"),
    ("val", "input.val"),
];

/// The globals of v2 that the guest defines, and what v3 has instead.
const OF_GUEST: [(&str, &str); 17] = [
    ("event", "input"),
    ("log", "info of require(\"internal.logging\")"),
    ("now", "require(\"internal.time\")"),
    ("TID", "require(\"internal.tids\")"),
    ("json", "require(\"internal.json\")"),
    ("toarray", "to_array of require(\"internal.json\")"),
    ("db", "require(\"happyview.db\"), .sql and .backlinks"),
    ("Record", "require(\"happyview.record\")"),
    ("xrpc", "require(\"happyview.xrpc\")"),
    ("http", "require(\"happyview.http\")"),
    ("atproto", "require(\"happyview.atproto\") and require(\"happyview.spaces\")"),
    ("jobs", "require(\"happyview.jobs\")"),
    ("linked_repos", "require(\"happyview.linked_repos\")"),
    ("labels", "require(\"belvedere.labels\")"),
    ("moderation", "require(\"belvedere.moderation\")"),
    ("plugin", "require(\"belvedere.plugin\")"),
    ("view", "require(\"belvedere.view\")"),
];

/// The globals of v2 that a v3 script does not have: the guest removes all that are not Lua's own.
pub(in crate::scripts) fn removed() -> impl Iterator<Item = (&'static str, &'static str)> {
    OF_RUNS.into_iter().chain(OF_GUEST)
}

/// Refuses the source of a v3 script that uses a global of v2 which it does not declare itself. `script` is its id.
///
/// # Errors
/// The line of the first, and what v3 has instead.
pub(in crate::scripts) fn check_globals(script: &str, source: &str) -> Result<(), ScriptFailure> {
    let Some((name, line)) = removed_global(source) else { return Ok(()) };
    let instead = removed().find(|(removed, _)| *removed == name).map_or("", |(_, instead)| instead);
    let message = format!("{script}:{line}: {name} is no global of a v3 script: use {instead}");
    Err(ScriptFailure { line: Some(line), ..ScriptFailure::new(FailureKind::Syntax, message) })
}

/// The first global of v2 in a source, and its line. A name that the source declares anywhere is its own.
fn removed_global(source: &str) -> Option<(&str, u32)> {
    let tokens: Vec<(&str, usize)> = Tokens::of(source).collect();
    let own = declared(&tokens);
    let found = tokens.iter().enumerate().find(|(at, (token, _))| {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].0);
        let after = tokens.get(at + 1).map_or("", |(after, _)| *after);
        // A field, or a name in a table.
        let is_field = matches!(before, "." | ":" | "goto") || after == "=";
        !is_field && removed().any(|(name, _)| name == *token) && !own.contains(token)
    });
    found.map(|(_, (name, at))| (*name, 1 + source[..*at].matches('\n').count() as u32))
}

/// The names that a source declares: locals, parameters, variables of loops, functions and globals.
fn declared<'a>(tokens: &[(&'a str, usize)]) -> HashSet<&'a str> {
    let mut own = HashSet::new();
    // An assignment in braces is a field of a table.
    let mut braces = 0_usize;
    for (at, (token, _)) in tokens.iter().enumerate() {
        let after = || tokens[at + 1..].iter().map(|(token, _)| *token);
        match *token {
            "{" => braces += 1,
            "}" => braces = braces.saturating_sub(1),
            "local" | "for" => own.extend(names(after())),
            "function" => {
                own.extend(after().next().filter(|name| *name != "("));
                own.extend(parameters(after().skip_while(|token| *token != "(").skip(1)));
            }
            name if braces == 0 && after().next() == Some("=") => {
                own.insert(name);
            }
            _ => {}
        }
    }
    own
}

/// The names of a list with commas.
fn names<'a>(mut tokens: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    while let Some(name) = tokens.next() {
        found.push(name);
        if tokens.next() != Some(",") {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_globals_that_are_not_declared() {
        for (source, name, line) in [
            ("function handle(input, ctx)\n return db.get(input.uri) end", "db", 2),
            ("function handle(input, ctx) return { at = now() } end", "now", 1),
            ("function handle(_, ctx) return params.x end", "params", 1),
            ("local a = 1\nlog('x')", "log", 2),
            ("local x\nreturn db", "db", 2),
        ] {
            assert_eq!(removed_global(source), Some((name, line)), "{source}");
        }
        for source in [
            "local db = require('happyview.db') function handle(input, ctx) return db.get(input.uri) end",
            "function handle(input) local t = { uri = 1, db = 2 } return t.db, t:now() end",
            "for did, record in pairs(x) do print(did, record) end",
            "local function log(x) end log('a') -- TID()\nlocal s = 'json.encode'",
            "local db",
            "local",
            "for",
            "function",
            "function (",
        ] {
            assert_eq!(removed_global(source), None, "{source}");
        }
    }
}
