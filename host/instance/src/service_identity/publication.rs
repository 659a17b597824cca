//! Collects what the instance has in its DID document.

use super::current::Current;
use super::{Additions, Mode, plc::Publication};
use belvedere_storage::store::{Db, StoreError, verification_methods};

/// The services and keys of the identity. `endpoint` is the origin of the instance.
///
/// # Errors
/// When the store can't be read.
pub(super) async fn publication(
    db: &Db,
    current: &Current,
    endpoint: &str,
    more: &Additions,
) -> Result<Publication, StoreError> {
    let name = |fragment: &str| fragment.trim_start_matches('#').to_owned();
    let methods = verification_methods::list(db).await?;
    let removed = methods.iter().filter(|row| row.deleted_at.is_some());
    let signing_key = current.signing_key.as_ref().filter(|_| current.mode.is_some_and(Mode::has_own_key));
    Ok(Publication {
        endpoint: endpoint.to_owned(),
        services: current
            .services(more)
            .map(|(fragment, service_type)| (name(fragment), service_type.to_owned()))
            .collect(),
        keys: current
            .methods
            .iter()
            .chain(&more.keys)
            .map(|(fragment, key)| (name(fragment), key.clone()))
            .collect(),
        signing_key: signing_key.map(belvedere_protocol::crypto::PrivateKey::public),
        removed: removed.map(|row| format!("did:key:{}", row.public_key_multibase)).collect(),
    })
}
