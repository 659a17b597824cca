//! Values of a view that a call provides: `$name` for a parameter, `$viewer` for the caller's DID.

use serde_json::{Map, Value};

use belvedere_protocol::atproto::Did;

/// A value in a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Constant(Value),
    Parameter(String),
    Viewer,
}

/// The parameters of a call, as the lexicon declares them, and its caller.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Handles are replaced by DIDs.
    pub values: Map<String, Value>,
    pub viewer: Option<Did>,
}

impl Operand {
    /// Reads a value of a document. `$$` begins a constant text with one `$`.
    pub(super) fn read(value: &Value) -> Result<Self, &'static str> {
        let Value::String(text) = value else {
            return match value {
                Value::Array(_) | Value::Object(_) | Value::Null => {
                    Err("a value is a text, a number, true, false, $parameter or $viewer")
                }
                constant => Ok(Self::Constant(constant.clone())),
            };
        };
        let Some(name) = text.strip_prefix('$') else { return Ok(Self::Constant(value.clone())) };
        if name.starts_with('$') {
            return Ok(Self::Constant(name.into()));
        }
        if name == "viewer" {
            return Ok(Self::Viewer);
        }
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name {
            Ok(Self::Parameter(name.to_owned()))
        } else {
            Err("$ begins the name of a parameter: write $$ for a text that begins with $")
        }
    }

    /// The value in a call; `None` if the call has none.
    pub(super) fn value(&self, arguments: &Arguments) -> Option<Value> {
        match self {
            Self::Constant(value) => Some(value.clone()),
            Self::Parameter(name) => arguments.values.get(name).cloned(),
            Self::Viewer => arguments.viewer.as_ref().map(|did| did.as_str().into()),
        }
    }

    /// The text in a call.
    pub(super) fn text(&self, arguments: &Arguments) -> Option<String> {
        match self.value(arguments)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}
