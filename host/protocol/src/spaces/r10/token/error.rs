//! The reasons why a token is refused, with their names and statuses in responses (spaces-delta.md §2).

use crate::crypto::jws::JwsError;

/// Error for a token that is refused. Each check has one.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    #[error("the token's algorithm is neither ES256 nor ES256K")]
    Algorithm,
    #[error("the token is of another class")]
    Type,
    #[error("the token's kid does not name a key that may sign it")]
    KeyId,
    #[error("the token has no usable jti")]
    Jti,
    #[error("the token's lifetime is negative or too long")]
    Lifetime,
    #[error("the token was issued in the future")]
    Future,
    #[error("the token has expired")]
    Expired,
    #[error("the token's issuer is not the one that may issue it")]
    Issuer,
    #[error("the token's signature does not verify")]
    Signature,
    #[error("the credential is not bound to a P-256 key")]
    Binding,
    /// For the caller, who knows the space of the request. So are the next two.
    #[error("the credential is for another space")]
    OtherSpace,
    #[error("the request is addressed to another DID")]
    SpaceAudience,
    #[error("the delegation token is for another space")]
    OtherSpaceDelegated,
    #[error("the token is for another service")]
    Audience,
    /// For the caller, who keeps the used `jti`s.
    #[error("the token was used before")]
    Replayed,
    /// For the caller, who keeps the revoked `jti`s.
    #[error("the credential is revoked")]
    Revoked,
    #[error("the client attestation is not valid: {0}")]
    Attestation(&'static str),
}

impl TokenError {
    /// The name of the error in a response.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed(_)
            | Self::Algorithm
            | Self::KeyId
            | Self::Jti
            | Self::Lifetime
            | Self::Future => "BadJwt",
            Self::Type => "BadJwtType",
            Self::Expired => "JwtExpired",
            Self::Issuer => "BadJwtIss",
            Self::Signature => "BadJwtSignature",
            Self::Binding => "BadJwtCnf",
            Self::OtherSpace => "InvalidCredential",
            Self::SpaceAudience => "BadSpaceAudience",
            Self::OtherSpaceDelegated => "InvalidDelegationToken",
            Self::Audience => "BadJwtAudience",
            Self::Replayed => "JwtReplayed",
            Self::Revoked => "CredentialRevoked",
            Self::Attestation(_) => "InvalidClientAttestation",
        }
    }

    /// The HTTP status of a response: 400 when the token is for something else, 401 when it proves nothing.
    pub fn status(self) -> u16 {
        match self {
            Self::OtherSpace | Self::OtherSpaceDelegated | Self::Attestation(_) => 400,
            _ => 401,
        }
    }
}

impl From<JwsError> for TokenError {
    fn from(error: JwsError) -> Self {
        match error {
            JwsError::Malformed(why) => Self::Malformed(why),
            JwsError::Algorithm => Self::Algorithm,
            JwsError::Signature => Self::Signature,
        }
    }
}
