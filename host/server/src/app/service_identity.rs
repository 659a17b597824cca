//! The identity of the instance, and what changes it.

use super::App;
use super::open::StartError;
use super::startup::Startup;
use belvedere_instance::core::Core;
use belvedere_instance::service_identity::plc::Directory;
use belvedere_instance::service_identity::{Additions, SPACE_HOST, ServiceIdentity, Setup};
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_storage::store::StoreError;

pub(super) async fn open(startup: &Startup) -> Result<(ServiceIdentity, Setup), StartError> {
    let Startup { core: Core { db, sealing, random, clock, .. }, config, identity, .. } = startup;
    let service_identity = ServiceIdentity::new(identity.did.clone());
    service_identity.reload(db, sealing).await.map_err(|error| startup.store_error(error))?;
    let directory = Directory::new(&startup.core.net, &config.indexing.plc_url, clock.clone());
    let sources = (random.clone(), clock.clone());
    let setup = Setup::new(db.clone(), sealing.clone(), sources, directory, identity.origin.clone());
    Ok((service_identity, setup))
}

impl App {
    /// The keys and services of the DID document that the identity does not have: the key of attestations, if its id belongs
    /// to this DID, and while spaces are on, their key and their service.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn identity_additions(&self) -> Result<Additions, StoreError> {
        let attestation = self.scripting.runtime.services.attestation.as_deref();
        let did = self.service_identity.attached_account().unwrap_or_else(|| self.service_identity.did());
        let key = attestation.and_then(|attestation| attestation.method_of(&did));
        let mut additions = Additions { keys: key.into_iter().collect(), ..Additions::default() };
        if self.settings.flag(SPACES_ENABLED) {
            additions.keys.push(self.spaces.published_key().await?);
            additions.services.push(SPACE_HOST);
        }
        Ok(additions)
    }
}
