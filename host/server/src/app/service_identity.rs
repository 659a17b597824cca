//! The identity of the instance, and what changes it.

use super::App;
use super::open::StartError;
use super::startup::Startup;
use belvedere_instance::core::Core;
use belvedere_instance::service_identity::plc::Directory;
use belvedere_instance::service_identity::{ServiceIdentity, Setup};
use belvedere_protocol::crypto::PublicKey;

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
    /// Keys in the DID document of the instance beyond those of its identity: that of attestations, if its id belongs to
    /// this DID. Fragment and key.
    pub fn more_identity_keys(&self) -> Vec<(String, PublicKey)> {
        let attestation = self.scripting.runtime.services.attestation.as_deref();
        let did = self.service_identity.attached_account().unwrap_or_else(|| self.service_identity.did());
        attestation.and_then(|attestation| attestation.method_of(&did)).into_iter().collect()
    }
}
