//! A library that uses secrets, values and the network. Tests replace the manifest within the module.

use belvedere_plugin::http::Request;
use belvedere_plugin::{Context, Fault, Function, LibraryPlugin, Plugin, Scope, kv, library_plugin, secrets};
use serde_json::{Value, json};

struct Adaptable;

impl Plugin for Adaptable {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl LibraryPlugin for Adaptable {
    fn functions() -> Vec<Function> {
        vec![
            Function::new("secret", &["name: string"], "Returns a secret."),
            Function::new("value", &["key: string"], "Returns a value."),
            Function::new("status", &["url: string"], "Returns the status of a page."),
        ]
    }

    fn call(name: &str, args: &[Value], _context: &Context) -> Result<Value, Fault> {
        let text = args.first().and_then(Value::as_str).unwrap_or_default();
        match name {
            "secret" => Ok(json!(secrets::get(text))),
            "value" => Ok(json!(kv::get(Scope::Plugin, text)?)),
            _ => Ok(json!(Request::get(text).send()?.status())),
        }
    }
}

library_plugin!(Adaptable, "../../../wit/plugin");
