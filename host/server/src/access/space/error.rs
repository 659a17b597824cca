//! The reasons why a token of spaces is refused at the door.

use belvedere_instance::spaces::{SpaceError, token_status};
use belvedere_protocol::spaces::r10::http_signature::SignatureError;
use belvedere_protocol::spaces::r10::token::TokenError;
use belvedere_web::http::Error;

use super::super::service_jwt::ServiceTokenError;
use super::super::used_proofs::UseUnknown;

/// The reason why a credential or a delegation token is refused.
#[derive(Debug, thiserror::Error)]
pub enum SpaceTokenError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The key of the issuer was not found, or not looked up.
    #[error(transparent)]
    Key(#[from] ServiceTokenError),
    #[error(transparent)]
    UseUnknown(#[from] UseUnknown),
    /// The keys of this instance can't be read.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl SpaceTokenError {
    /// Whether the token is at fault; otherwise it was not checked.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Token(_) | Self::Signature(_) => true,
            Self::Key(error) => error.is_failure(),
            Self::UseUnknown(_) | Self::Space(_) => false,
        }
    }
}

impl From<SpaceTokenError> for Error {
    fn from(error: SpaceTokenError) -> Self {
        let text = error.to_string();
        match error {
            SpaceTokenError::Token(error) => Self::new(token_status(error), error.name()).with_message(text),
            SpaceTokenError::Signature(_) => Self::unauthorized(SignatureError::NAME).with_message(text),
            SpaceTokenError::Key(ServiceTokenError::Key(cause)) => {
                tracing::info!(%cause, "the key of the issuer of a space's token could not be found");
                Self::unauthorized("BadJwt").with_message("the issuer's key could not be found")
            }
            SpaceTokenError::Key(error) => error.into(),
            SpaceTokenError::UseUnknown(_) => Self::new(http::StatusCode::SERVICE_UNAVAILABLE, text),
            SpaceTokenError::Space(error) => error.into(),
        }
    }
}
