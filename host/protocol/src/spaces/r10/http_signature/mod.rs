//! HTTP message signatures (RFC 9421) that prove the possession of the key of a credential (spaces.md §8).
//!
//! The signature covers neither method, URL nor body, and may be used again for the same audience until the credential
//! expires.

#[cfg(test)]
mod tests;

use sfv::{
    BareItem, Dictionary, InnerList, Item, KeyRef, ListEntry, ListSerializer, Parameters, Parser, StringRef,
};

use belvedere_base::clock::Timestamp;

use super::token::SKEW_SECONDS;
use crate::crypto::{Algorithm, HighS, PrivateKey, PublicKey};

/// The label of our signature. Other labels are ignored.
const LABEL: &str = "atproto-space";
const AUTHORIZATION: &str = "authorization";
/// The header that names the DID whose repo, or whose space, a request is about.
pub const AUDIENCE: &str = "atproto-space-audience";
/// The only algorithm: ECDSA with P-256 and SHA-256.
const ALGORITHM: &str = "ecdsa-p256-sha256";

/// Bytes of each header that is parsed. A credential has about 700, a signature 200.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// The values of a request's headers: one for each line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a> {
    pub authorization: &'a [&'a str],
    pub audience: &'a [&'a str],
    pub signature_input: &'a [&'a str],
    pub signature: &'a [&'a str],
}

/// The components that a signature covers, exactly and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover<'k> {
    /// The request for a credential: `authorization`. The signature names its key.
    Delegation,
    /// A request with a credential that is bound to this key: `authorization` and the audience.
    Credential(&'k PublicKey),
}

/// Error for a request without a valid signature. In responses: 401 with [`SignatureError::NAME`].
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignatureError {
    #[error("the header {0} is missing, repeated or longer than {MAX_HEADER_BYTES} bytes")]
    Header(&'static str),
    #[error("the header {0} is malformed")]
    Malformed(&'static str),
    #[error("the header {0} has no member {LABEL}")]
    Label(&'static str),
    #[error("the signature must cover exactly {0}")]
    Cover(&'static str),
    #[error("the signature's alg is not {ALGORITHM}")]
    Algorithm,
    #[error("the signature names no keyid")]
    NoKey,
    #[error("the signature's keyid is not the did:key of a P-256 key")]
    Key,
    #[error("the signature's keyid is not the key that the credential is bound to")]
    OtherKey,
    #[error("the signature was created in the future, or has expired")]
    Time,
    #[error("the signature does not verify")]
    Signature,
}

impl SignatureError {
    /// The name of the error in a response.
    pub const NAME: &'static str = "BadSpaceSignature";
}

impl Cover<'_> {
    fn components(self) -> &'static [&'static str] {
        match self {
            Self::Delegation => &[AUTHORIZATION],
            Self::Credential(_) => &[AUTHORIZATION, AUDIENCE],
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Delegation => r#"("authorization")"#,
            Self::Credential(_) => r#"("authorization" "atproto-space-audience")"#,
        }
    }
}

/// Checks the signature of a request, and returns its key. A high `s` is accepted: browsers produce it.
///
/// # Errors
/// Names the first check that fails.
pub fn verify(headers: &Headers<'_>, cover: Cover<'_>, now: Timestamp) -> Result<PublicKey, SignatureError> {
    let authorization = single(headers.authorization, AUTHORIZATION)?;
    let audience = match cover {
        Cover::Delegation => None,
        Cover::Credential(_) => Some(single(headers.audience, AUDIENCE)?),
    };
    let input = inner_list(member(headers.signature_input, "signature-input")?)?;
    let signature = signature_of(member(headers.signature, "signature")?)?;
    let is_covered = input.items.len() == cover.components().len()
        && input.items.iter().zip(cover.components()).all(|(item, name)| {
            item.params.is_empty()
                && matches!(&item.bare_item, BareItem::String(text) if text.as_str() == *name)
        });
    if !is_covered {
        return Err(SignatureError::Cover(cover.text()));
    }
    let key = key_of(&input.params, cover)?;
    check_times(&input.params, now.as_seconds())?;
    let base = base(authorization, audience, &input);
    key.verify(base.as_bytes(), &signature, HighS::Accept).map_err(|_| SignatureError::Signature)?;
    Ok(key)
}

/// The values of `Signature-Input` and `Signature` for a request; `None` if the key is not a P-256 key. `audience`: that of
/// a request with a credential; `None` for the request for one.
pub fn sign(key: &PrivateKey, authorization: &str, audience: Option<&str>) -> Option<(String, String)> {
    if key.algorithm() != Algorithm::Es256 {
        return None;
    }
    let text = |text: &str| StringRef::from_str(text).ok().map(|text| BareItem::String(text.to_owned()));
    let mut input = InnerList::new(vec![Item::new(text(AUTHORIZATION)?)]);
    if audience.is_some() {
        input.items.push(Item::new(text(AUDIENCE)?));
    }
    let name = KeyRef::from_str("keyid").ok()?;
    input.params.insert(name.to_owned(), text(&key.public().to_did_key())?);
    let signature = key.sign(base(authorization, audience, &input).as_bytes()).to_vec();
    let signature = serialized(ListEntry::Item(Item::new(BareItem::ByteSequence(signature))));
    Some((format!("{LABEL}={}", serialized(ListEntry::InnerList(input))), format!("{LABEL}={signature}")))
}

/// The text that is signed.
fn base(authorization: &str, audience: Option<&str>, input: &InnerList) -> String {
    let line = |name: &str, value: &str| format!("\"{name}\": {}\n", value.trim_ascii());
    let audience = audience.map_or_else(String::new, |audience| line(AUDIENCE, audience));
    let params = serialized(ListEntry::InnerList(input.clone()));
    format!("{}{audience}\"@signature-params\": {params}", line(AUTHORIZATION, authorization))
}

fn serialized(entry: ListEntry) -> String {
    let mut list = ListSerializer::new();
    list.members([&entry]);
    list.finish().unwrap_or_default()
}

/// The value of a header that is there once.
fn single<'a>(lines: &[&'a str], name: &'static str) -> Result<&'a str, SignatureError> {
    match lines {
        [value] if value.len() <= MAX_HEADER_BYTES => {
            // A line feed would add a line to the text that is signed.
            if value.bytes().any(|b| b.is_ascii_control()) {
                Err(SignatureError::Malformed(name))
            } else {
                Ok(value)
            }
        }
        _ => Err(SignatureError::Header(name)),
    }
}

/// The member with our label, and the name of its header.
fn member(lines: &[&str], name: &'static str) -> Result<(ListEntry, &'static str), SignatureError> {
    if lines.is_empty() || lines.iter().map(|line| line.len()).sum::<usize>() > MAX_HEADER_BYTES {
        return Err(SignatureError::Header(name));
    }
    let header = lines.join(", ");
    let members: Dictionary = Parser::new(&header).parse().map_err(|_| SignatureError::Malformed(name))?;
    let member = members.into_iter().find(|(label, _)| label.as_str() == LABEL);
    member.map(|(_, member)| (member, name)).ok_or(SignatureError::Label(name))
}

fn inner_list((member, name): (ListEntry, &'static str)) -> Result<InnerList, SignatureError> {
    match member {
        ListEntry::InnerList(list) => Ok(list),
        ListEntry::Item(_) => Err(SignatureError::Malformed(name)),
    }
}

/// The 64 bytes `r || s`. Their base64 may lack the padding.
fn signature_of((member, name): (ListEntry, &'static str)) -> Result<[u8; 64], SignatureError> {
    let signature = match member {
        ListEntry::Item(Item { bare_item: BareItem::ByteSequence(bytes), params }) if params.is_empty() => {
            bytes
        }
        _ => return Err(SignatureError::Malformed(name)),
    };
    signature.try_into().map_err(|_| SignatureError::Malformed(name))
}

fn key_of(params: &Parameters, cover: Cover<'_>) -> Result<PublicKey, SignatureError> {
    match params.get("alg") {
        None => {}
        Some(BareItem::String(alg)) if alg.as_str() == ALGORITHM => {}
        Some(_) => return Err(SignatureError::Algorithm),
    }
    let named = match params.get("keyid") {
        None => None,
        Some(BareItem::String(key)) => {
            let key = PublicKey::from_did_key(key.as_str()).ok();
            Some(key.filter(|key| key.algorithm() == Algorithm::Es256).ok_or(SignatureError::Key)?)
        }
        Some(_) => return Err(SignatureError::Key),
    };
    match (cover, named) {
        (Cover::Delegation, named) => named.ok_or(SignatureError::NoKey),
        (Cover::Credential(key), None) => Ok(key.clone()),
        (Cover::Credential(key), Some(named)) if named == *key => Ok(named),
        (Cover::Credential(_), Some(_)) => Err(SignatureError::OtherKey),
    }
}

/// Checks the times if the signer set them.
fn check_times(params: &Parameters, now: i64) -> Result<(), SignatureError> {
    let time = |name: &str| match params.get(name) {
        None => Ok(None),
        Some(BareItem::Integer(seconds)) => Ok(Some(i64::from(*seconds))),
        Some(_) => Err(SignatureError::Malformed("signature-input")),
    };
    let is_early = time("created")?.is_some_and(|created| created > now + SKEW_SECONDS);
    let is_late = time("expires")?.is_some_and(|expires| expires + SKEW_SECONDS <= now);
    if is_early || is_late { Err(SignatureError::Time) } else { Ok(()) }
}
