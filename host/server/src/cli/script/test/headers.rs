//! Tests in the headers of scripts, the comments before the first line of code, in the form of the documents' examples:
//!
//! ```lua
//! -- params: limit=2          the query string of the call
//! -- input: {"text": "hi"}    the body of a procedure's call
//! -- as: did:plc:alice        the account that calls
//! -- returns: {"notes": []}   the body of the answer, as JSON
//! -- status: 400              the status of the answer, if it is not 200
//! ```
//!
//! A script with `returns` or `status` has a test.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use url::form_urlencoded;

use super::super::files::ScriptFile;
use belvedere_protocol::trigger::TriggerKind;

/// The account that calls a procedure whose header names none.
const CALLER: &str = "did:plc:caller";

/// A header that can't be read.
#[derive(Debug)]
pub(super) struct InvalidHeader {
    pub(super) line: usize,
    pub(super) reason: String,
}

/// The directives of a header, each with its line.
#[derive(Default)]
struct Header<'a> {
    params: &'a str,
    input: Option<Value>,
    caller: Option<&'a str>,
    returns: Option<(usize, Value)>,
    status: Option<(usize, u16)>,
}

/// The source of a test file for the header of a script. Its code is on the line of the header that says what is expected, so that a
/// failure names this line. `None` for a script without such a header.
///
/// # Errors
/// When a directive can't be read.
pub(super) fn test_of(script: &ScriptFile) -> Result<Option<String>, InvalidHeader> {
    let call = match script.trigger.kind() {
        TriggerKind::Query => "query",
        TriggerKind::Procedure => "procedure",
        _ => return Ok(None),
    };
    let header = read(&script.source)?;
    let lines = header.returns.as_ref().map(|(line, _)| *line);
    let Some(line) = lines.or(header.status.map(|(line, _)| line)) else { return Ok(None) };
    let params = decoded(&params(header.params));
    let caller = header.caller.or((call == "procedure").then_some(CALLER));
    let caller = caller.map_or("nil".to_owned(), quoted);
    let nsid = quoted(script.trigger.subject());
    let called = if call == "query" {
        format!("call.query({nsid}, {params}, {{ as = {caller} }})")
    } else {
        let input = header.input.as_ref().map_or("nil".to_owned(), decoded);
        format!("call.procedure({nsid}, {input}, {{ as = {caller}, params = {params} }})")
    };
    let status = header.status.map_or(200, |(_, status)| status);
    let returns = header.returns.map(|(_, returns)| decoded(&returns));
    let expected = returns.map_or(String::new(), |returns| format!("expect(a.body).equals({returns})"));
    let name = quoted(&format!("{} answers as its header says", script.trigger));
    let code = format!(
        "test({name}, function() local a = {called} expect({{ status = a.status, error = a.error }}).includes({{ status = \
         {status} }}) {expected} end)"
    );
    Ok(Some(format!("{}{code}", "\n".repeat(line - 1))))
}

fn read(source: &str) -> Result<Header<'_>, InvalidHeader> {
    let mut header = Header::default();
    for (number, text) in source.lines().enumerate() {
        let text = text.trim();
        let is_shebang = number == 0 && text.starts_with("#!");
        if !(text.is_empty() || is_shebang || text.starts_with("--")) {
            break;
        }
        let Some((name, value)) = text.strip_prefix("-- ").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let line = number + 1;
        let json = || {
            serde_json::from_str(value)
                .map_err(|error| InvalidHeader { line, reason: format!("{name}: {error}") })
        };
        match name {
            "params" => header.params = value,
            "as" => header.caller = Some(value),
            "input" => header.input = Some(json()?),
            "returns" => header.returns = Some((line, json()?)),
            "status" => {
                let status = value.parse().ok().filter(|status| (100..1000).contains(status));
                let reason = || format!("status: {value:?} is not a status such as 400");
                header.status = Some((line, status.ok_or_else(|| InvalidHeader { line, reason: reason() })?));
            }
            _ => {}
        }
    }
    Ok(header)
}

/// The parameters of a query string: a name that repeats is an array.
fn params(query: &str) -> Value {
    let mut params = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = Value::String(value.into_owned());
        match params.get_mut(&*name) {
            None => drop(params.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(single) => *single = Value::Array(vec![single.take(), value]),
        }
    }
    Value::Object(params)
}

/// The value as Lua code on one line.
fn decoded(value: &Value) -> String {
    format!("json.decode({})", quoted(&value.to_string()))
}

/// A text as a Lua string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use belvedere_protocol::trigger::Trigger;

    use super::*;

    fn test(source: &str) -> Result<Option<String>, InvalidHeader> {
        let trigger = Trigger::parse("xrpc.query:com.example.get").unwrap();
        test_of(&ScriptFile { path: PathBuf::new(), trigger, source: source.to_owned() })
    }

    #[test]
    fn the_test_is_on_the_line_of_what_is_expected() {
        let source = "-- A list.\n-- params: a=1&a=2&b=%22\n-- returns: {\"é\": 1}\nfunction handle() end";
        let code = test(source).unwrap().unwrap();
        assert_eq!(code.lines().count(), 3);
        let code = code.trim_start();
        assert!(code.contains(r#"json.decode("{\"a\":[\"1\",\"2\"],\"b\":\"\\\"\"}")"#), "{code}");
        assert!(code.contains(r#"equals(json.decode("{\"\xc3\xa9\":1}"))"#), "{code}");
    }

    #[test]
    fn only_headers_are_read_and_only_what_is_expected_makes_a_test() {
        assert!(test("-- params: a=1\nfunction handle() end").unwrap().is_none());
        assert!(test("function handle() end\n-- returns: {}").unwrap().is_none());
        assert!(test("-- status: 404\nfunction handle() end").unwrap().unwrap().contains("status = 404"));
        assert_eq!(test("\n-- returns: {").unwrap_err().line, 2);
        assert_eq!(test("-- status: many").unwrap_err().line, 1);
    }
}
