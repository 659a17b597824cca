//! Functions for scripts: Markdown to safe HTML and to plain text, and sanitised HTML. Asks for nothing.

mod html;
mod markdown;

use belvedere_plugin::{Context, Fault, Function, LibraryPlugin, Plugin, library_plugin};
use serde_json::Value;

/// Longest text in bytes. Scripts can't pass more to a plugin anyway, and within it the worst text takes a fraction of a
/// call's time.
const MAX_TEXT: usize = 256 * 1024;

struct Markdown;

impl Plugin for Markdown {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl LibraryPlugin for Markdown {
    fn functions() -> Vec<Function> {
        vec![
            Function::new(
                "render",
                &["text: string", "options?: {breaks?: boolean, images?: boolean}"],
                "HTML of CommonMark with tables, strikethrough and task lists; safe to show. `breaks` keeps line \
                 breaks, `images = false` leaves out images.",
            ),
            Function::new("to_text", &["text: string"], "The text of CommonMark, without its markup."),
            Function::new(
                "sanitize",
                &["html: string"],
                "The HTML without everything that is not safe to show.",
            ),
        ]
    }

    fn call(name: &str, args: &[Value], _context: &Context) -> Result<Value, Fault> {
        let result = match name {
            "render" => markdown::render(text(args)?, &options(args.get(1))?)?,
            "to_text" => markdown::to_text(text(args)?),
            "sanitize" => html::sanitize(text(args)?, true)?,
            _ => return Err(Fault::unsupported(format!("there is no function {name}"))),
        };
        Ok(Value::String(result))
    }
}

library_plugin!(Markdown, "../../wit/plugin");

fn text(args: &[Value]) -> Result<&str, Fault> {
    match args.first() {
        Some(Value::String(text)) if text.len() <= MAX_TEXT => Ok(text),
        Some(Value::String(_)) => Err(Fault::bad_input(format!("the text is longer than {MAX_TEXT} bytes"))),
        _ => Err(Fault::bad_input("the first argument must be a string")),
    }
}

fn options(arg: Option<&Value>) -> Result<markdown::RenderOptions, Fault> {
    match arg {
        None | Some(Value::Null) => Ok(markdown::RenderOptions::default()),
        // Lua's empty table is an empty array in JSON.
        Some(Value::Array(list)) if list.is_empty() => Ok(markdown::RenderOptions::default()),
        Some(options) => serde_json::from_value(options.clone())
            .map_err(|error| Fault::bad_input(format!("the options can't be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, args: &Value) -> Result<String, String> {
        let context = Context { caller: None, has_session: false };
        let result = Markdown::call(name, args.as_array().unwrap(), &context);
        result.map(|value| value.as_str().unwrap().to_owned()).map_err(|fault| fault.message)
    }

    #[test]
    fn functions_check_their_arguments() {
        use serde_json::json;
        assert_eq!(call("to_text", &json!(["*hi*"])).unwrap(), "hi");
        assert_eq!(call("render", &json!(["*hi*", {}])).unwrap(), "<p><em>hi</em></p>\n");
        assert_eq!(call("render", &json!(["*hi*", []])).unwrap(), "<p><em>hi</em></p>\n");
        assert!(call("render", &json!([])).unwrap_err().contains("string"));
        assert!(call("render", &json!([1])).unwrap_err().contains("string"));
        assert!(call("render", &json!(["", {"breaks": 1}])).unwrap_err().contains("options"));
        assert!(call("render", &json!(["", {"brakes": true}])).unwrap_err().contains("brakes"));
        assert!(call("render", &json!(["a".repeat(MAX_TEXT + 1)])).unwrap_err().contains("longer"));
        assert!(call("fly", &json!([""])).unwrap_err().contains("fly"));
    }
}
