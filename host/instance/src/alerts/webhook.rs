//! Calls the webhook of an alert.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::mac;
use belvedere_storage::store::alerts::AlertRow;
use belvedere_web::net::{Limits, NetError, OutboundBody};

use crate::core::Core;

/// The header with the time of the call and its signature: `t=<unix seconds>,v1=<hex>`. The signature is the HMAC-SHA256 of the
/// time, a full stop and the body, under the alert's secret.
const SIGNATURE: HeaderName = HeaderName::from_static("belvedere-signature");

/// Limits of a call. The body of the answer is not read.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, total: Duration::from_secs(10) };

/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// The reason why a webhook was not called, or did not accept the call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("the alert has no webhook")]
    None,
    #[error(
        "the secret can't be decrypted: TOKEN_ENCRYPTION_KEY has changed. Save the alert with a new secret"
    )]
    Secret,
    #[error(transparent)]
    Net(#[from] NetError),
}

/// A secret for an alert that the operator has given none.
pub fn new_secret(core: &Core) -> String {
    core.random.hex(SECRET_BYTES)
}

/// Seals a secret for the store.
pub fn seal(core: &Core, id: &str, secret: &str) -> Vec<u8> {
    core.sealing.seal(&core.random, &purpose(id), secret.as_bytes())
}

fn purpose(id: &str) -> String {
    format!("alert secret {id}")
}

/// Posts a state of the alert, of the time `at`, from the instance at `origin`.
///
/// # Errors
/// When no server with a status of 2xx has answered.
pub async fn call(
    core: &Core,
    origin: &str,
    alert: &AlertRow,
    state: &str,
    at: Timestamp,
) -> Result<(), CallError> {
    let (Some(url), Some(sealed)) = (&alert.rule.url, &alert.rule.secret) else {
        return Err(CallError::None);
    };
    let secret = core.sealing.open(&purpose(&alert.id), sealed).map_err(|_| CallError::Secret)?;
    let body = body(alert, origin, state, at).to_string();
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let signature = signature(&secret, core.clock.now().as_seconds(), &body);
    headers.extend(HeaderValue::try_from(signature).ok().map(|value| (SIGNATURE, value)));
    let body = OutboundBody::from(Bytes::from(body));
    let answer = core.net.open(Method::POST, url, headers, Some(body), LIMITS).await?;
    if answer.status.is_success() { Ok(()) } else { Err(NetError::Status(answer.status).into()) }
}

fn signature(secret: &[u8], seconds: i64, body: &str) -> String {
    let tag = mac::tag(secret, format!("{seconds}.{body}").as_bytes());
    format!("t={seconds},v1={}", hex::encode(tag))
}

fn body(alert: &AlertRow, origin: &str, state: &str, at: Timestamp) -> serde_json::Value {
    let rule = &alert.rule;
    json!({
        // The same for each attempt.
        "id": format!("{}.{}", alert.id, at.0),
        "instance": origin,
        "state": state,
        "at": at,
        "alert": {
            "id": alert.id,
            "name": rule.name,
            "metric": rule.metric,
            "label": rule.label,
            "condition": rule.condition,
            "threshold": rule.threshold,
            "minutes": rule.minutes,
        },
        "value": alert.value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_time_and_body() {
        // printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        assert_eq!(
            signature(b"secret", 1_700_000_000, r#"{"a":1}"#),
            "t=1700000000,v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686"
        );
    }
}
