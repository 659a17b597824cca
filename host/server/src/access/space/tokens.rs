//! Verifies credentials and delegation tokens with the HTTP message signatures beside them (spaces.md §7.2, §7.5, §8). The form
//! and the signature of the request are checked first: they take no look-up.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::super::authorization;
use super::super::{Access, Sender};
use super::error::SpaceTokenError;
use super::lines::Lines;
use super::verified::Verified;
use belvedere_base::clock::Timestamp;
use belvedere_instance::spaces::{Delegate, Presented};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::crypto::dpop::token_hash;
use belvedere_protocol::spaces::r10::http_signature::{self, Cover};
use belvedere_protocol::spaces::r10::token::{
    Binding, Credential, KeyId, ParsedCredential, ParsedDelegation, Signer, TokenError,
};

/// The credential in a request: `Atproto-Space`, or `Bearer` with a token of this class. Also one of several `Authorization`
/// headers, so that the request is refused for this.
pub(super) fn presented_credential(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter().filter_map(|value| value.to_str().ok());
    values.find_map(|value| match authorization::Credential::parse(value) {
        authorization::Credential::Space(token) => Some(token),
        authorization::Credential::Bearer(token) if ParsedCredential::is_class_of(token) => Some(token),
        _ => None,
    })
}

/// Verifies a credential and the proof that the sender holds its key.
pub(super) async fn verify_credential(
    access: &Access,
    sender: &Sender<'_>,
    headers: &HeaderMap,
    token: &str,
) -> Result<Presented, SpaceTokenError> {
    let (now, resolver) = (access.core.clock.now(), &access.core.resolver);
    let lines = Lines::of(headers);
    if let Some(Verified { credential, issuer_change, .. }) =
        access.verified_credentials.credential(token, now)
        && resolver.last_change(&credential.space.did).await == issuer_change
    {
        prove(access, &lines, &credential.binding, now)?;
        return Ok(presented(credential, lines.audience()?));
    }
    let parsed = ParsedCredential::parse(token)?;
    prove(access, &lines, parsed.binding(), now)?;
    let audience = lines.audience()?;
    let (space, key_id) = (parsed.space(), parsed.key_id());
    // Before the key is looked up: what changes meanwhile ends what is remembered.
    let issuer_change = resolver.last_change(&space.did).await;
    let credential = match access.spaces.credential_key(space).await? {
        Some(key) if key_id == KeyId::AtprotoSpace => parsed.verify(&key, now)?,
        Some(_) => return Err(TokenError::KeyId.into()),
        None => {
            verify_with_document(access, sender, (&space.did, key_id), |key| parsed.verify(key, now)).await?
        }
    };
    let verified = Verified { credential: credential.clone(), at: now, issuer_change };
    access.verified_credentials.remember(token, verified);
    Ok(presented(credential, audience))
}

fn presented(credential: Credential, audience: Did) -> Presented {
    Presented { space: credential.space, audience, jti: credential.jti }
}

/// Checks that the sender holds the key of a credential.
fn prove(
    access: &Access,
    lines: &Lines<'_>,
    binding: &Binding,
    now: Timestamp,
) -> Result<(), SpaceTokenError> {
    // Credentials of R8, which DPoP proofs go with, are not accepted.
    let Binding::Key(holder) = binding else { return Err(TokenError::Binding.into()) };
    let verify = || http_signature::verify(&lines.headers(), Cover::Credential(holder), now).map(drop);
    Ok(access.verified_credentials.prove(lines, now, verify)?)
}

/// Verifies a delegation token, and marks it as used.
pub(super) async fn verify_delegation(
    access: &Access,
    sender: &Sender<'_>,
    headers: &HeaderMap,
) -> Result<Delegate, SpaceTokenError> {
    let now = access.core.clock.now();
    let key = http_signature::verify(&Lines::of(headers).headers(), Cover::Delegation, now)?;
    let authorization::Credential::Bearer(token) = authorization::Credential::of(headers) else {
        return Err(TokenError::Malformed("it must follow Bearer").into());
    };
    let parsed = ParsedDelegation::parse(token)?;
    let delegation = match parsed.signer() {
        Signer::Host => parsed.verify(&access.spaces.own_delegation_key().await?, now)?,
        Signer::Account => {
            let of_account = (parsed.issuer(), KeyId::Atproto);
            verify_with_document(access, sender, of_account, |key| parsed.verify(key, now)).await?
        }
    };
    let (account, until) = (delegation.issuer, delegation.times.accepted_until());
    if !access.used.first_use(&token_hash(account.as_str()), &delegation.jti, until).await? {
        return Err(TokenError::Replayed.into());
    }
    Ok(Delegate { space: delegation.space, account, key })
}

/// Verifies a token with a key of its issuer's DID document. The document is fetched again, once, if the cached one has
/// another key or none.
async fn verify_with_document<T>(
    access: &Access,
    sender: &Sender<'_>,
    (issuer, id): (&Did, KeyId),
    verify: impl Fn(&PublicKey) -> Result<T, TokenError>,
) -> Result<T, SpaceTokenError> {
    let keys = &access.core.resolver;
    let cached = access.tokens.key(keys, sender, issuer, id, false).await;
    let verified = cached.map_err(SpaceTokenError::from).and_then(|key| Ok(verify(&key)?));
    match verified {
        Err(SpaceTokenError::Token(TokenError::Signature)) => {}
        Err(SpaceTokenError::Key(ref error)) if error.is_failure() => {}
        verified => return verified,
    }
    Ok(verify(&access.tokens.key(keys, sender, issuer, id, true).await?)?)
}
