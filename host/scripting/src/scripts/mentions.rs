//! Finds what a source names in literal form: methods in `xrpc.query("…")` and `xrpc.procedure("…")`, script
//! variables in `env.NAME` and `env["NAME"]`, libraries in `require("…")`, collections in `Record("…"` and
//! `collection = "…"`, statements in `db.raw("…"`, and the settings `params_raw = true`, `cron = "…"` and
//! `timezone = "…"` at the top level. Comments and strings are skipped.

use std::ops::Range;

const RAW_PARAMS: &str = "params_raw";

/// Something that a source names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    pub kind: MentionKind,
    /// The NSID, the name of the variable or library, or the SQL.
    pub name: &'a str,
    /// The bytes of the source at which the name is.
    pub at: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MentionKind {
    Query,
    Procedure,
    Variable,
    Library,
    Collection,
    /// The whole SQL.
    Statement,
    /// The cron expression of a schedule, and its time zone.
    Cron,
    Timezone,
    /// The script takes its parameters as text.
    RawParams,
}

impl MentionKind {
    /// Whether it is one of the settings, which are assignments at the top level.
    fn is_setting(self) -> bool {
        matches!(self, Self::RawParams | Self::Cron | Self::Timezone)
    }
}

/// All mentions in a source, in order.
pub fn mentions(source: &str) -> Vec<Mention<'_>> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut is_field = false;
    let mut place = Place::default();
    while let Some(next) = rest.chars().next() {
        if let Some(after) = skip_comment(rest) {
            rest = after;
        } else if let Some(after) = skip_long_string(rest) {
            (rest, is_field) = (after, false);
            place.pass("");
        } else if next == '"' || next == '\'' {
            (rest, is_field) = (string_literal(rest).1, false);
            place.pass("");
        } else if next.is_ascii_alphanumeric() || next == '_' {
            if !is_field
                && let Some((kind, name)) = named(rest)
                && (!kind.is_setting() || place.begins_global())
            {
                let start = name.as_ptr() as usize - source.as_ptr() as usize;
                found.push(Mention { kind, name, at: start..start + name.len() });
            }
            let after = rest.trim_start_matches(is_name);
            place.pass(&rest[..rest.len() - after.len()]);
            (rest, is_field) = (after, false);
        } else {
            // `..` concatenates.
            is_field = next == ':' || (next == '.' && !rest.starts_with(".."));
            let skipped = if rest.starts_with("..") { 2 } else { next.len_utf8() };
            if !next.is_whitespace() {
                place.pass(&rest[..skipped]);
            }
            rest = &rest[skipped..];
        }
    }
    found
}

/// A place in a source, by the tokens before it.
#[derive(Default)]
pub(super) struct Place<'a> {
    /// The blocks and brackets around it.
    depth: usize,
    /// The last token, without the content of strings.
    last: &'a str,
}

impl<'a> Place<'a> {
    pub(super) fn pass(&mut self, token: &'a str) {
        match token {
            // The blocks of `while` and `for` begin with `do`.
            "function" | "if" | "do" | "repeat" | "{" | "(" | "[" => self.depth += 1,
            "end" | "until" | "}" | ")" | "]" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.last = token;
    }

    /// Whether an assignment that begins here is to a global variable, at the top level.
    pub(super) fn begins_global(&self) -> bool {
        self.depth == 0 && !matches!(self.last, "local" | ",")
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The text after a word, if the text begins with it.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_prefix(word).filter(|rest| !rest.starts_with(is_name)).map(str::trim_start)
}

/// The name in the expression that begins here.
fn named(text: &str) -> Option<(MentionKind, &str)> {
    if let Some(rest) = word(text, "xrpc") {
        let rest = rest.strip_prefix('.')?.trim_start();
        let (kind, rest) = match word(rest, "query") {
            Some(rest) => (MentionKind::Query, rest),
            None => (MentionKind::Procedure, word(rest, "procedure")?),
        };
        let rest = rest.strip_prefix('(').map_or(rest, str::trim_start);
        return Some((kind, literal(rest)?));
    }
    if let Some(rest) = word(text, RAW_PARAMS) {
        word(rest.strip_prefix('=')?.trim_start(), "true")?;
        return Some((MentionKind::RawParams, &text[..RAW_PARAMS.len()]));
    }
    for (setting, kind) in [("cron", MentionKind::Cron), ("timezone", MentionKind::Timezone)] {
        if let Some(rest) = word(text, setting) {
            return Some((kind, literal(rest.strip_prefix('=')?.trim_start())?));
        }
    }
    if let Some(rest) = word(text, "collection") {
        return Some((MentionKind::Collection, literal(rest.strip_prefix('=')?.trim_start())?));
    }
    if let Some(rest) = word(text, "Record") {
        let rest = rest.strip_prefix('(').map_or(rest, str::trim_start);
        return Some((MentionKind::Collection, literal(rest)?));
    }
    if let Some(rest) = word(text, "db") {
        let rest = word(rest.strip_prefix('.')?.trim_start(), "raw")?;
        return Some((MentionKind::Statement, whole_literal(rest.strip_prefix('(')?.trim_start())?));
    }
    if let Some(rest) = word(text, "require") {
        let rest = rest.strip_prefix('(').map_or(rest, str::trim_start);
        return Some((MentionKind::Library, literal(rest)?));
    }
    let rest = word(text, "env")?;
    let name = if let Some(rest) = rest.strip_prefix('.') {
        let rest = rest.trim_start();
        &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]
    } else {
        literal(rest.strip_prefix('[')?.trim_start())?
    };
    (!name.is_empty()).then_some((MentionKind::Variable, name))
}

/// The content of a quoted literal that begins here, if it has no escapes.
fn literal(text: &str) -> Option<&str> {
    if text.starts_with(['"', '\'']) { string_literal(text).0 } else { None }
}

/// The content of a string literal that begins here, quoted without escapes or in long brackets, if it is a whole argument.
fn whole_literal(text: &str) -> Option<&str> {
    let (content, rest) = match skip_long_string(text) {
        Some(rest) => {
            let brackets = 2 + text[1..].find('[')?;
            let content = &text[..text.len() - rest.len()];
            (content.get(brackets..content.len().checked_sub(brackets)?)?, rest)
        }
        None if text.starts_with(['"', '\'']) => {
            let (content, rest) = string_literal(text);
            (content?, rest)
        }
        None => return None,
    };
    rest.trim_start().starts_with([',', ')']).then_some(content)
}

/// The text after a comment that begins here.
pub(super) fn skip_comment(text: &str) -> Option<&str> {
    let body = text.strip_prefix("--")?;
    if let Some(after) = skip_long_string(body) {
        return Some(after);
    }
    Some(body.find('\n').map_or("", |at| &body[at..]))
}

/// The text after a long bracket that begins here: `[[…]]`, `[==[…]==]`.
pub(super) fn skip_long_string(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    let body = inner[level..].strip_prefix('[')?;
    let end = format!("]{}]", "=".repeat(level));
    Some(body.find(&end).map_or("", |at| &body[at + end.len()..]))
}

/// The content of a quoted literal that begins here, if it has no escapes, and what follows it.
pub(super) fn string_literal(text: &str) -> (Option<&str>, &str) {
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

/// The methods that a source names, sorted, each once.
pub(in crate::scripts) fn called_methods(source: &str) -> Vec<String> {
    let is_method = |kind| matches!(kind, MentionKind::Query | MentionKind::Procedure);
    let methods = mentions(source).into_iter().filter(|mention| is_method(mention.kind));
    let mut found: Vec<String> = methods.map(|mention| mention.name.to_owned()).collect();
    found.sort();
    found.dedup();
    found
}

/// A library that a source names, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scripts) struct Required {
    pub(in crate::scripts) name: Box<str>,
    pub(in crate::scripts) line: u32,
}

/// The libraries that a source names, in order, each once.
pub(in crate::scripts) fn required_libraries(source: &str) -> Vec<Required> {
    let mut found: Vec<Required> = Vec::new();
    for mention in mentions(source).into_iter().filter(|mention| mention.kind == MentionKind::Library) {
        if found.iter().all(|required| *required.name != *mention.name) {
            let line = 1 + source[..mention.at.start].matches('\n').count() as u32;
            found.push(Required { name: mention.name.into(), line });
        }
    }
    found
}

/// Whether a script takes its parameters as text.
pub(in crate::scripts) fn takes_raw_params(source: &str) -> bool {
    mentions(source).iter().any(|mention| mention.kind == MentionKind::RawParams)
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
            local l = [==[ xrpc.query('com.example.long') ]==]
            local a = xrpc.query("com.example.b", {})
            local b = xrpc.procedure('com.example.a', {})
            local c = xrpc . query "com.example.b"
            local d = my_xrpc.query("com.example.other") or self.xrpc.query("com.example.other")
            local e = xrpc.query(name)
        "#;
        assert_eq!(called_methods(source), ["com.example.a", "com.example.b"]);
        assert!(called_methods("return 1").is_empty());
    }

    #[test]
    fn finds_the_libraries_that_a_script_requires() {
        let source = "local a = require('a')\nlocal b, c = require \"b\", require( \"c\" )\n\
            -- require('d')\nlocal s = \"require('e')\" my.require('f') required('g')\nrequire('a')";
        let found: Vec<_> = required_libraries(source)
            .into_iter()
            .map(|found| (found.name.to_string(), found.line))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 2)]);
        assert!(required_libraries("require(name) require [[a]]").is_empty());
    }

    #[test]
    fn finds_collections_and_statements() {
        let source = "db.query{ collection = 'com.example.a' } Record('com.example.b', {}) Record \"com.example.c\" \
            db.raw('one') db.raw( \"two\" , {}) db.raw([==[three\n3]==], { 1 }) db . raw ([[\nfour]]) \
            db.raw('a' .. x) db.raw([[b]] .. x) db.raw(x) db.raw 'c' my.db.raw('d') collection == 'e' \
            t.collection = 'f' db.raw('g\\n') db.raw([[]]) db.raw([==";
        let found: Vec<_> = mentions(source)
            .into_iter()
            .map(|mention| {
                assert_eq!(&source[mention.at], mention.name);
                (mention.kind, mention.name)
            })
            .collect();
        let (collection, statement) = (MentionKind::Collection, MentionKind::Statement);
        assert_eq!(
            found,
            [
                (collection, "com.example.a"),
                (collection, "com.example.b"),
                (collection, "com.example.c"),
                (statement, "one"),
                (statement, "two"),
                (statement, "three\n3"),
                (statement, "\nfour"),
                (statement, ""),
            ]
        );
    }

    #[test]
    fn finds_the_setting_of_raw_params() {
        for source in [
            "params_raw = true",
            "local x = 1 params_raw=true\nfunction handle() end",
            "function a() if x then return { f = function() end } end end params_raw = true",
            "for i = 1, 2 do while f(i) do repeat local a = t['end'] until a end end\nparams_raw = true",
            "local s = 'function' -- if\nparams_raw = true",
        ] {
            assert!(takes_raw_params(source), "{source}");
        }
        for source in [
            "-- params_raw = true",
            "params_raw = truely",
            "params_raw == true",
            "a.params_raw = true",
            "params_raw = false",
            "function handle() params_raw = true end",
            "if env.RAW then params_raw = true end",
            "do params_raw = true end",
            "for i = 1, 2 do params_raw = true end",
            "repeat params_raw = true until x",
            "local options = { params_raw = true }",
            "local params_raw = true",
            "local a, params_raw = true",
            "function handle() if a then b() elseif c then d() else e() end params_raw = true end",
        ] {
            assert!(!takes_raw_params(source), "{source}");
        }
    }

    #[test]
    fn finds_variables_with_their_position() {
        let source =
            "local a = env.KEY .. env['OTHER KEY']..env. LAST -- env.COMMENT\nlocal b = row.env.NO + env2.NO";
        let found: Vec<&str> = mentions(source)
            .into_iter()
            .map(|mention| {
                assert_eq!(mention.kind, MentionKind::Variable);
                assert_eq!(&source[mention.at], mention.name);
                mention.name
            })
            .collect();
        assert_eq!(found, ["KEY", "OTHER KEY", "LAST"]);
    }

    #[test]
    fn never_panics_on_unfinished_text() {
        let unfinished =
            ["--[==[", "\"abc", "'a\\", "xrpc.query(", "xrpc.query(\"ä", "--", "env.", "env[", "[[", "env ä"];
        for source in unfinished {
            assert!(mentions(source).is_empty(), "{source}");
        }
    }
}
