//! Answers that scripts end with: `error({ status = 404, error = "NotFound", message = "no such list" })`.
//!
//! The body is that of the server's own errors: `{error}`, with `message` as XRPC has it. `docs/adr/0035-scripts-end-with-a-status.md`
//! has the reasons.

use http::StatusCode;

use belvedere_base::error_text::cut;
use belvedere_instance::xrpc::Answer;
use belvedere_web::http::Error;

/// Bytes of `error`: a code or a short sentence, twice the longest of the server's own.
const ERROR_BYTES: usize = 128;

/// Bytes of `message`; the rest is cut off, because it often quotes what the caller sent.
const MESSAGE_BYTES: usize = 2 << 10;

/// A field of the raised table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Absent,
    Text(Vec<u8>),
    Other,
}

/// The answer that the fields make.
///
/// # Errors
/// The error in them, for the script's author.
pub(super) fn answer(status: Option<i64>, error: Field, message: Field) -> Result<Answer, String> {
    let status = client_error(status).ok_or("status must be an integer from 400 to 499")?;
    let error = match error {
        Field::Text(text) => code(text)?,
        Field::Absent | Field::Other => return Err("error must be a string".to_owned()),
    };
    let answer = Error::new(status, error);
    let answer = match message {
        Field::Absent => answer,
        Field::Text(text) => answer.with_message(cleaned(&text)),
        Field::Other => return Err("message must be a string".to_owned()),
    };
    Ok(Answer::of_error(&answer))
}

fn client_error(status: Option<i64>) -> Option<StatusCode> {
    let status = StatusCode::from_u16(u16::try_from(status?).ok()?).ok();
    status.filter(StatusCode::is_client_error)
}

fn code(text: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(text).map_err(|_| "error must be valid UTF-8")?;
    if text.is_empty() || text.len() > ERROR_BYTES {
        return Err(format!("error must have 1 to {ERROR_BYTES} bytes"));
    }
    if text.contains(char::is_control) {
        return Err("error must not contain control characters".to_owned());
    }
    Ok(text)
}

/// The text with U+FFFD in place of bytes that are not UTF-8 and of control characters other than newline and tab.
fn cleaned(text: &[u8]) -> String {
    let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    let mut text = String::from_utf8_lossy(text).replace(is_bad, "\u{fffd}");
    cut(&mut text, MESSAGE_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(text: impl AsRef<[u8]>) -> Field {
        Field::Text(text.as_ref().to_vec())
    }

    fn body(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.body).unwrap()
    }

    #[test]
    fn a_client_error_has_the_servers_form() {
        let full = answer(Some(400), text("InvalidRequest"), text("a \"bad\"\ncursor")).unwrap();
        assert_eq!(full.status, StatusCode::BAD_REQUEST);
        assert_eq!(body(&full), json!({ "error": "InvalidRequest", "message": "a \"bad\"\ncursor" }));
        let short = answer(Some(499), text("list not found"), Field::Absent).unwrap();
        assert_eq!((short.status.as_u16(), body(&short)), (499, json!({ "error": "list not found" })));
    }

    #[test]
    fn everything_else_is_an_error_with_a_reason() {
        for status in [
            None,
            Some(0),
            Some(200),
            Some(302),
            Some(399),
            Some(500),
            Some(-404),
            Some(65_936),
            Some(i64::MAX),
        ] {
            let refused = answer(status, text("X"), Field::Absent).unwrap_err();
            assert_eq!(refused, "status must be an integer from 400 to 499", "{status:?}");
        }
        for (error, message, reason) in [
            (Field::Absent, Field::Absent, "error must be a string"),
            (Field::Other, Field::Absent, "error must be a string"),
            (text(""), Field::Absent, "error must have 1 to 128 bytes"),
            (text("x".repeat(129)), Field::Absent, "error must have 1 to 128 bytes"),
            (text("a\0b"), Field::Absent, "error must not contain control characters"),
            (text("a\nb"), Field::Absent, "error must not contain control characters"),
            (text(b"\xff"), Field::Absent, "error must be valid UTF-8"),
            (text("X"), Field::Other, "message must be a string"),
        ] {
            assert_eq!(answer(Some(400), error.clone(), message).unwrap_err(), reason, "{error:?}");
        }
    }

    #[test]
    fn a_message_is_cleaned_and_cut() {
        let message = |bytes: &[u8]| {
            let answer = answer(Some(400), text("X"), text(bytes)).unwrap();
            body(&answer)["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(message(b"a\0b\x1b[c\xff\td"), "a\u{fffd}b\u{fffd}[c\u{fffd}\td");
        let cut = message("é".repeat(3_000).as_bytes());
        assert_eq!((cut.len(), cut.ends_with("é…")), (MESSAGE_BYTES + '…'.len_utf8(), true));
    }
}
