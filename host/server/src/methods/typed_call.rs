//! The parameters and the input of a call as the lexicon of its method declares them (specs/lexicon), for all that may answer it.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::json_input;
use crate::app::App;
use belvedere_instance::xrpc::{Call, Verb};
use belvedere_protocol::atproto::lexicon::SchemaErrors;
use belvedere_web::http::Error;

const NO_FIELDS: &[u8] = b"{}";

/// A call whose parameters and input match the lexicon of its method.
#[derive(Debug)]
pub(super) struct TypedCall<'a> {
    pub(super) call: &'a Call,
    /// `None` for a method without a lexicon.
    pub(super) params: Option<Map<String, Value>>,
    /// The body, checked to be JSON, with the defaults of the lexicon.
    pub(super) input: Option<Bytes>,
}

impl<'a> TypedCall<'a> {
    /// # Errors
    /// 400 that names what does not match.
    pub(super) fn new(app: &App, call: &'a Call) -> Result<Self, Error> {
        let (lexicons, method) = (app.registry.snapshot(), call.nsid.as_str());
        let invalid =
            |errors: SchemaErrors| Error::bad_request("InvalidRequest").with_message(errors.to_string());
        let params = lexicons.params(method, &call.params).map_err(invalid)?;
        let given = json_input(call)?.filter(|input| !input.is_empty());
        let input = match (given, call.verb) {
            (Some(input), _) => Some(lexicons.input(method, input.clone()).map_err(invalid)?),
            (None, Verb::Procedure) => {
                // A procedure without a body is called with no fields.
                let defaults = lexicons.input(method, Bytes::from_static(NO_FIELDS)).map_err(invalid)?;
                (defaults != NO_FIELDS).then_some(defaults)
            }
            (None, Verb::Query) => None,
        };
        Ok(Self { call, params, input })
    }
}
