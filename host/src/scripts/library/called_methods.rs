//! Finds the methods that a script calls, from its source text.

/// The methods that a script names in `xrpc.query("…")` and `xrpc.procedure("…")`, outside comments and strings,
/// sorted.
pub(in crate::scripts) fn called_methods(source: &str) -> Vec<String> {
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
    found
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
        assert_eq!(called_methods(source), ["com.example.a", "com.example.b"]);
        assert!(called_methods("return 1").is_empty());
    }

    #[test]
    fn never_panics_on_unfinished_text() {
        for source in ["--[==[", "\"abc", "'a\\", "xrpc.query(", "xrpc.query(\"ä", "--"] {
            assert!(called_methods(source).is_empty(), "{source}");
        }
    }
}
