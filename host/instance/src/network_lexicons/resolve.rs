//! Finds the publisher of a lexicon and fetches the document from its PDS, with all checks.

use http::StatusCode;
use serde_json::Value;

use crate::identity::IdentityError;
use crate::indexing::fetch::{self, FetchError};
use crate::lexicons::{AuthorityError, PUBLISHED_LEXICONS};
use belvedere_protocol::atproto::lexicon::{LexiconDoc, LexiconError};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri};
use belvedere_web::http::Error;

use super::NetworkLexicons;

/// Bytes of a document. Ten times the largest lexicon in use; each host keeps all documents in memory.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// A lexicon as its publisher has it.
#[derive(Debug)]
pub struct Resolved {
    pub authority: Did,
    /// The JSON text, as published.
    pub text: String,
    /// The same, parsed.
    pub json: Value,
    pub document: LexiconDoc,
}

/// The reason why a lexicon could not be taken from the network.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("{authority} publishes no lexicon {nsid}")]
    NotFound { authority: Did, nsid: Nsid },
    #[error("can't fetch {nsid} from {authority}: {error}")]
    Fetch { authority: Did, nsid: Nsid, error: FetchError },
    #[error("the lexicon that {authority} publishes as {nsid} is not usable: {reason}")]
    Invalid { authority: Did, nsid: Nsid, reason: String },
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        let text = error.to_string();
        match error {
            ResolveError::NotFound { .. } => Self::not_found(text),
            ResolveError::Invalid { .. } => Self::bad_request(text),
            error if error.is_no_publisher() => Self::bad_request(text),
            ResolveError::Authority(_) | ResolveError::Fetch { .. } => {
                Self::new(StatusCode::BAD_GATEWAY, text)
            }
        }
    }
}

/// The reason why a published document is not usable.
#[derive(Debug, thiserror::Error)]
enum InvalidDocument {
    #[error("it is larger than {MAX_DOCUMENT_BYTES} bytes")]
    TooLarge,
    #[error("its PDS names no CID, or the document has none that could be checked")]
    Unverified,
    #[error("it is not JSON")]
    Json,
    #[error(transparent)]
    Lexicon(#[from] LexiconError),
    #[error("its id is {0}")]
    OtherId(Nsid),
    #[error("its $type is not {PUBLISHED_LEXICONS}")]
    OtherType,
}

impl ResolveError {
    /// Whether the name has no publisher that could be asked: not in DNS, or one without a usable DID document.
    pub fn is_no_publisher(&self) -> bool {
        match self {
            Self::Authority(_) => true,
            Self::Fetch { error: FetchError::Identity(error), .. } => {
                !matches!(error, IdentityError::Unavailable(_) | IdentityError::Busy(_))
            }
            Self::Fetch { error, .. } => matches!(error, FetchError::NoPds),
            Self::NotFound { .. } | Self::Invalid { .. } => false,
        }
    }
}

impl NetworkLexicons {
    /// Looks up the publisher of a lexicon and fetches the document. Stores nothing.
    ///
    /// # Errors
    /// When DNS names no publisher, or it has no valid document of this name.
    pub async fn resolve(&self, nsid: &Nsid) -> Result<Resolved, ResolveError> {
        let authority = self.authorities.publisher(nsid).await?;
        let invalid = |reason: String| ResolveError::Invalid {
            authority: authority.clone(),
            nsid: nsid.clone(),
            reason,
        };
        let collection = Nsid::try_from(PUBLISHED_LEXICONS).map_err(|error| invalid(error.to_string()))?;
        let rkey = RecordKey::try_from(nsid.as_str()).map_err(|error| invalid(error.to_string()))?;
        let uri = RecordUri { did: authority.clone(), collection, rkey };
        let fetched = fetch::record(&self.core.net, &self.core.resolver, &uri).await;
        let fetched = match fetched {
            Ok(Some(fetched)) => fetched,
            Ok(None) => return Err(ResolveError::NotFound { authority, nsid: nsid.clone() }),
            Err(error) => return Err(ResolveError::Fetch { authority, nsid: nsid.clone(), error }),
        };
        let checked = check(nsid, &fetched.text, fetched.cid_verified);
        let (json, document) = checked.map_err(|error| invalid(error.to_string()))?;
        let text = String::from_utf8_lossy(&fetched.text).into_owned();
        Ok(Resolved { authority, text, json, document })
    }
}

fn check(nsid: &Nsid, text: &[u8], cid_verified: bool) -> Result<(Value, LexiconDoc), InvalidDocument> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(InvalidDocument::TooLarge);
    }
    if !cid_verified {
        return Err(InvalidDocument::Unverified);
    }
    let json: Value = serde_json::from_slice(text).map_err(|_| InvalidDocument::Json)?;
    if json.get("$type").is_none_or(|kind| kind != PUBLISHED_LEXICONS) {
        return Err(InvalidDocument::OtherType);
    }
    let document = LexiconDoc::parse(&json)?;
    if document.id != *nsid {
        return Err(InvalidDocument::OtherId(document.id));
    }
    Ok((json, document))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_to_be_verified_and_of_this_name() {
        let nsid = Nsid::try_from("com.example.note").unwrap();
        let good = json!({ "$type": PUBLISHED_LEXICONS, "lexicon": 1, "id": "com.example.note", "defs": {} });
        let why = |document: &Value, verified| {
            check(&nsid, document.to_string().as_bytes(), verified).err().map(|error| error.to_string())
        };
        assert_eq!(why(&good, true), None);
        assert!(why(&good, false).unwrap().contains("CID"));
        let typed = |kind: Value| {
            let mut document = good.clone();
            document["$type"] = kind;
            why(&document, true)
        };
        assert_eq!(typed(PUBLISHED_LEXICONS.into()), None);
        for wrong in [json!("com.example.note"), json!(7), Value::Null] {
            assert_eq!(typed(wrong).unwrap(), "its $type is not com.atproto.lexicon.schema");
        }
        let mut untyped = good.clone();
        untyped.as_object_mut().unwrap().remove("$type");
        assert_eq!(why(&untyped, true).unwrap(), "its $type is not com.atproto.lexicon.schema");
        let other =
            json!({ "$type": PUBLISHED_LEXICONS, "lexicon": 1, "id": "com.example.other", "defs": {} });
        assert_eq!(why(&other, true).unwrap(), "its id is com.example.other");
        let later =
            json!({ "$type": PUBLISHED_LEXICONS, "lexicon": 2, "id": "com.example.note", "defs": {} });
        assert!(why(&later, true).unwrap().contains("lexicon: must be 1"));
        let mut large = good.clone();
        large["description"] = "x".repeat(MAX_DOCUMENT_BYTES).into();
        assert!(why(&large, true).unwrap().contains("larger"));
        assert!(check(&nsid, b"<html>", true).is_err());
    }
}
