//! A library that asks for nothing: the least that a plugin can be.

use belvedere_plugin::{Context, Fault, Function, LibraryPlugin, Plugin, library_plugin};
use serde_json::{Value, json};

struct Minimal;

impl Plugin for Minimal {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl LibraryPlugin for Minimal {
    fn functions() -> Vec<Function> {
        vec![
            Function::new("echo", &["...: any"], "Returns its arguments."),
            Function::new("caller", &[], "Returns who calls."),
            Function::new("fail", &["message: string"], "Fails with the message."),
        ]
    }

    fn call(name: &str, args: &[Value], context: &Context) -> Result<Value, Fault> {
        match name {
            "echo" => Ok(Value::Array(args.to_vec())),
            "caller" => Ok(json!({"caller": context.caller, "hasSession": context.has_session})),
            _ => Err(Fault::bad_input(args.first().and_then(Value::as_str).unwrap_or_default())),
        }
    }
}

library_plugin!(Minimal, "../../../wit/plugin");
