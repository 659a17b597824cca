//! Reads the functions, tables and globals from the annotations.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScriptSymbol {
    name: String,
    #[schemars(extend("enum" = ["function", "table", "global"]))]
    kind: &'static str,
    signature: String,
    params: Vec<SymbolParam>,
    returns: Option<String>,
    help: Option<String>,
}

impl ScriptSymbol {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct SymbolParam {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    optional: bool,
    help: Option<String>,
}

/// The comments above a definition.
#[derive(Default)]
struct Comments {
    help: String,
    params: Vec<SymbolParam>,
    returns: Vec<String>,
    kind: Option<String>,
    overload: Option<String>,
}

/// All symbols, in the order of the annotations.
pub(super) fn parse(annotations: &str) -> Vec<ScriptSymbol> {
    let mut symbols = Vec::new();
    let mut comments = Comments::default();
    for line in annotations.lines() {
        if let Some(comment) = line.strip_prefix("---") {
            comments.add(comment);
            continue;
        }
        let comments = std::mem::take(&mut comments);
        if let Some(name) = line.strip_prefix("function ").and_then(|rest| rest.split('(').next()) {
            symbols.push(comments.function(name));
        } else if let Some((name, value)) = line.split_once(" = ") {
            symbols.push(match value {
                "{}" => comments.table(name),
                value if value.starts_with("function(") => comments.function(name),
                _ => comments.global(name),
            });
        }
    }
    symbols
}

impl Comments {
    fn add(&mut self, comment: &str) {
        let Some((tag, rest)) = comment.strip_prefix('@').map(|tag| tag.split_once(' ').unwrap_or((tag, "")))
        else {
            if !comment.starts_with('|') {
                self.help += if self.help.is_empty() { "" } else { " " };
                self.help += comment.trim();
            }
            return;
        };
        match tag {
            "param" => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, "any"));
                let (kind, help) = split_type(rest);
                self.params.push(SymbolParam {
                    name: name.trim_end_matches('?').to_owned(),
                    kind: kind.to_owned(),
                    optional: name.ends_with('?'),
                    help: (!help.is_empty()).then(|| help.to_owned()),
                });
            }
            "return" => self.returns.push(split_type(rest).0.to_owned()),
            "type" => self.kind = Some(rest.to_owned()),
            "overload" => self.overload = rest.strip_prefix("fun").map(str::to_owned),
            _ => {}
        }
    }

    fn help(&self) -> Option<String> {
        (!self.help.is_empty()).then(|| self.help.clone())
    }

    fn function(self, name: &str) -> ScriptSymbol {
        let mark = |param: &SymbolParam| if param.optional { "?" } else { "" };
        let params: Vec<String> = self
            .params
            .iter()
            .map(|param| format!("{}{}: {}", param.name, mark(param), param.kind))
            .collect();
        let returns = (!self.returns.is_empty()).then(|| self.returns.join(", "));
        let suffix = returns.as_ref().map(|returns| format!(": {returns}")).unwrap_or_default();
        ScriptSymbol {
            kind: "function",
            signature: format!("{name}({}){suffix}", params.join(", ")),
            help: self.help(),
            name: name.to_owned(),
            params: self.params,
            returns,
        }
    }

    fn table(self, name: &str) -> ScriptSymbol {
        let signature =
            self.overload.as_ref().map_or_else(|| name.to_owned(), |call| format!("{name}{call}"));
        ScriptSymbol {
            kind: "table",
            signature,
            help: self.help(),
            name: name.to_owned(),
            params: Vec::new(),
            returns: None,
        }
    }

    fn global(self, name: &str) -> ScriptSymbol {
        let kind = self.kind.as_deref().unwrap_or("any");
        let signature = format!("{name}: {kind}");
        ScriptSymbol {
            kind: "global",
            signature,
            help: self.help(),
            name: name.to_owned(),
            params: Vec::new(),
            returns: None,
        }
    }
}

/// A type, and the text after it. A type has blanks within brackets and after `:`, `,` and `|` only.
fn split_type(text: &str) -> (&str, &str) {
    let (mut depth, mut last) = (0_i32, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '{' | '[' | '<' => depth += 1,
            ')' | '}' | ']' | '>' => depth -= 1,
            ' ' if depth == 0 && !matches!(last, ':' | ',' | '|') => return (&text[..at], text[at..].trim()),
            _ => {}
        }
        last = c;
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_scripting::scripts::annotations;

    #[test]
    fn the_annotations_become_symbols() {
        let symbols = parse(&annotations::text(&[]));
        let find = |name: &str| symbols.iter().find(|symbol| symbol.name == name).unwrap();
        let query = find("db.query");
        assert_eq!(
            (query.kind, query.signature.as_str()),
            ("function", "db.query(query: belvedere.Query): belvedere.Page")
        );
        assert_eq!(
            query.help.as_deref(),
            Some("A page of a collection's records, newest first unless sorted.")
        );
        let raw = find("db.raw");
        assert_eq!(raw.params[0].help.as_deref(), Some("`$1`, `$2` and so on stand for parameters"));
        assert_eq!(raw.params[1].kind, "(string|number|boolean|belvedere.null)[]");
        assert!(raw.params[1].optional);
        assert_eq!(raw.returns.as_deref(), Some("table<string, any>[], integer?"));
        assert_eq!(find("params").signature, "params: table<string, any>");
        assert_eq!(find("jobs").kind, "table");
        assert!(find("Record").signature.starts_with("Record(collection: string"));
        assert_eq!(find("jobs.create").params[2].kind, "{ auth: boolean }");
        assert!(symbols.iter().all(|symbol| !symbol.name.contains(' ')), "{symbols:?}");
    }
}
