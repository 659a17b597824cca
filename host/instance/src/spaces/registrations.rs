//! Services that receive notices of what happens in a space (spaces.md §11).

use super::services::PDS;
use super::{SpaceError, Spaces, Viewer};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::r10::token::host_of;
use belvedere_storage::store::spaces::SpaceId;
use belvedere_storage::store::spaces::registrations::{self, Registered};

/// Time for which a service receives notices without a renewal.
const REGISTRATION_SECONDS: i64 = 24 * 60 * 60;

/// Time for which the authority of a space of another host receives notices after a write: longer than a notice waits.
const AUTHORITY_SECONDS: i64 = 2 * REGISTRATION_SECONDS;

impl Spaces {
    /// Registers a service for the notices of a hosted space, or renews its registration. Returns the end of it. A service
    /// without a fragment is the PDS of its DID.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for a caller who is neither a member nor has a credential; [`SpaceError::NoService`] for a
    /// service that no DID document names with a public address.
    pub async fn register_notify(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        service: ServiceRef,
    ) -> Result<Timestamp, SpaceError> {
        let space = self.joined(uri, viewer).await?;
        let service = with_fragment(service);
        let endpoint = self.0.services.endpoint(&service).await;
        let endpoint = endpoint.map_err(|error| SpaceError::NoService(error.to_string()))?;
        // A credential names no user: its holder is the service.
        let caller = viewer.account().map_or(service.did.as_str(), |account| account.did.as_str());
        let now = self.core().clock.now();
        let expires_at = now.plus_seconds(REGISTRATION_SECONDS);
        let (db, name) = (&self.core().db, service.to_string());
        match registrations::register(db, space.id, &name, &endpoint, caller, expires_at, now).await? {
            Registered::Stored => Ok(expires_at),
            Registered::NoSpace => Err(SpaceError::NoSpace),
            Registered::TooMany => {
                Err(SpaceError::Conflict("the space has as many services registered as it may"))
            }
        }
    }

    /// Ends the registration of a service. Returns whether there was one.
    ///
    /// # Errors
    /// 403 for a member who is neither the service, nor the one that registered it, nor an administrator.
    pub async fn unregister_notify(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        service: ServiceRef,
    ) -> Result<bool, SpaceError> {
        let account = viewer.account()?;
        let (db, service) = (&self.core().db, with_fragment(service));
        let (name, is_itself) = (service.to_string(), account.did == service.did);
        let space = match self.find(uri).await {
            Ok(space) if space.is_hosted => space,
            // As for a space that exists, without a registration.
            Ok(_) | Err(SpaceError::NoSpace) if is_itself => return Ok(false),
            Ok(_) => return Err(SpaceError::NoSpace),
            Err(error) => return Err(error),
        };
        let found = registrations::get(db, space.id, &name, self.core().clock.now()).await?;
        let registered_by = found.as_ref().map(|row| row.registered_by.as_str());
        let is_registrant = registered_by == Some(account.did.as_str());
        if is_itself || is_registrant || space.creator == account.did || account.is_super_user {
            return Ok(registrations::unregister(db, space.id, &name).await?);
        }
        self.visible(uri, viewer).await?;
        match found {
            None => Ok(false),
            Some(_) => Err(SpaceError::NotAuthorized("the service was registered by another account")),
        }
    }

    /// Registers the authority of a space of another host for the writes that our users make in it. Its address is looked up for
    /// each delivery, so that a write does not need it.
    pub(super) async fn register_authority(&self, space: SpaceId, authority: &Did) -> Result<(), SpaceError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        let service = host_of(authority);
        let lasting = now.plus_seconds(REGISTRATION_SECONDS);
        if registrations::get(db, space, &service, lasting).await?.is_none() {
            let until = now.plus_seconds(AUTHORITY_SECONDS);
            registrations::register(db, space, &service, "", authority.as_str(), until, now).await?;
        }
        Ok(())
    }
}

fn with_fragment(service: ServiceRef) -> ServiceRef {
    let fragment = service.fragment.or_else(|| Some(PDS.trim_start_matches('#').to_owned()));
    ServiceRef { fragment, ..service }
}
