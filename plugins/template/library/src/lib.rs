//! Functions for scripts: `plugin.template.shout("hello")`.

use belvedere_plugin::{Context, Fault, Function, LibraryPlugin, Plugin, library_plugin};
use serde_json::{Value, json};

struct Template;

impl Plugin for Template {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl LibraryPlugin for Template {
    /// The parameters are annotations for editors: `text: string`, `limit?: integer`.
    fn functions() -> Vec<Function> {
        vec![Function::new("shout", &["text: string"], "The text in capitals.")]
    }

    fn call(name: &str, args: &[Value], _context: &Context) -> Result<Value, Fault> {
        match (name, args) {
            ("shout", [Value::String(text)]) => Ok(json!(text.to_uppercase())),
            ("shout", _) => Err(Fault::bad_input("shout takes a text")),
            _ => Err(Fault::unsupported(format!("there is no function {name}"))),
        }
    }
}

library_plugin!(Template, "../../../wit/plugin");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_capitals() {
        let context = Context { caller: None, has_session: false };
        assert_eq!(Template::call("shout", &[json!("hi")], &context).unwrap(), json!("HI"));
        assert!(Template::call("shout", &[json!(1)], &context).is_err());
    }
}
