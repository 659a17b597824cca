//! The lines of the headers that a signature is about (spaces.md §8).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::sha256;
use belvedere_protocol::spaces::r10::http_signature::{AUDIENCE, Headers};
use belvedere_protocol::spaces::r10::token::TokenError;

/// They are compared and signed as they were sent.
pub(super) struct Lines<'a> {
    authorization: Vec<&'a str>,
    audience: Vec<&'a str>,
    signature_input: Vec<&'a str>,
    signature: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        // A line that is not text stays one, and is malformed.
        let lines =
            |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("\0")).collect();
        Self {
            authorization: lines(AUTHORIZATION.as_str()),
            audience: lines(AUDIENCE),
            signature_input: lines("signature-input"),
            signature: lines("signature"),
        }
    }

    /// The DID that the request is addressed to.
    pub(super) fn audience(&self) -> Result<Did, TokenError> {
        let audience = self.audience.first().and_then(|text| Did::try_from(text.trim()).ok());
        audience.ok_or(TokenError::SpaceAudience)
    }

    /// The SHA-256 of all lines.
    pub(super) fn digest(&self) -> [u8; 32] {
        let Self { authorization, audience, signature_input, signature } = self;
        let mut text = Vec::new();
        for lines in [authorization, audience, signature_input, signature] {
            text.extend(lines.len().to_le_bytes());
            for line in lines {
                text.extend(line.len().to_le_bytes());
                text.extend(line.as_bytes());
            }
        }
        sha256(&text)
    }

    /// Whether the signature has a parameter with its end.
    pub(super) fn names_an_end(&self) -> bool {
        self.signature_input.iter().any(|line| line.contains("expires"))
    }

    pub(super) fn headers(&self) -> Headers<'_> {
        let Self { authorization, audience, signature_input, signature } = self;
        Headers { authorization, audience, signature_input, signature }
    }
}
