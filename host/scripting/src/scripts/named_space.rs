//! The global `space`: the space that a request names, if its caller may list records of it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::{FailureAnswer, FaultCode};
use super::{FailureKind, Invocation, ScriptFailure, Services};
use belvedere_instance::spaces::SpaceError;
use belvedere_instance::xrpc::{Answer, Caller};
use belvedere_protocol::spaces::SpaceUri;

/// The value of the global, for the space in the parameter or the field `space`. While spaces are off, nothing is looked up.
pub(super) async fn of(
    invocation: &Invocation<'_>,
    caller: &Caller,
    services: &Services,
) -> Result<Option<Value>, ScriptFailure> {
    let enabled = services.spaces.as_ref().filter(|spaces| spaces.check_enabled().is_ok());
    let (Some(spaces), Some(uri)) = (enabled, enabled.and_then(|_| named(invocation))) else {
        return Ok(None);
    };
    // On the heap, so that runs without a space stay small.
    match Box::pin(spaces.is_readable(&uri, caller)).await {
        Ok(readable) => Ok(readable.then(|| value(&uri))),
        Err(SpaceError::Store(error)) => {
            tracing::error!(%error, "the space that a request names can't be read");
            Err(ScriptFailure::new(FailureKind::Internal, "the space that the request names can't be read"))
        }
        // Otherwise a member would look like any other account.
        Err(error) => {
            let message = format!("the space that the request names can't be read: {error}");
            let answer = FailureAnswer::Own(Answer::of_error(&error.into()));
            let failure = ScriptFailure::new(FailureKind::Runtime, message);
            Err(ScriptFailure {
                fault: Some(FaultCode::Unavailable),
                answer: Some(Arc::new(answer)),
                ..failure
            })
        }
    }
}

/// The parameter counts before the field. A parameter that repeats is an array, and names no space.
fn named(invocation: &Invocation<'_>) -> Option<SpaceUri> {
    #[derive(Deserialize)]
    struct Input {
        space: String,
    }
    let mut params = invocation.params.unwrap_or_default().iter().filter(|(name, _)| name == "space");
    match (params.next(), params.next()) {
        (Some((_, uri)), None) => uri.parse().ok(),
        (Some(_), Some(_)) => None,
        (None, _) => serde_json::from_slice::<Input>(invocation.input?).ok()?.space.parse().ok(),
    }
}

/// A space has no other id than its address.
fn value(space: &SpaceUri) -> Value {
    let SpaceUri { did, kind, skey } = space;
    let (uri, did) = (space.to_string(), did.as_str());
    json!({ "space": uri, "space_id": uri, "did": did, "authority_did": did, "type_nsid": kind.as_str(), "skey": skey.as_str() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_counts_before_the_field() {
        const SPACE: &str = "at://did:plc:abc/space/com.example.group/main";
        let other = SPACE.replace("main", "other");
        let name = |params: &[&str], input: &str| {
            let params: Vec<_> = params.iter().map(|uri| ("space".to_owned(), (*uri).to_owned())).collect();
            let invocation =
                Invocation { params: Some(&params), input: Some(input.as_bytes()), ..Invocation::default() };
            named(&invocation).map(|space| space.to_string())
        };
        let input = format!(r#"{{"space":"{other}","n":[1]}}"#);
        assert_eq!(name(&[SPACE], &input).as_deref(), Some(SPACE));
        assert_eq!(name(&[], &input), Some(other));
        for (params, input) in [
            (&[SPACE, SPACE][..], &*input),
            (&["nonsense"], &input),
            (&[], "{}"),
            (&[], r#"{"space":["x"]}"#),
            (&[], r#"{"space":"at://did:plc:abc/space/com.example.group/ma\u0000in"}"#),
            (&[], "[7]"),
        ] {
            assert_eq!(name(params, input), None, "{params:?} {input}");
        }
        assert_eq!(named(&Invocation::default()), None);
    }
}
