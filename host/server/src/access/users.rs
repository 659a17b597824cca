//! Looks up admin users, creates the first one, and records when users, keys, sessions and API
//! clients were last used.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Access, Admin, Permission};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::{StoreError, api_clients, api_keys, users, web_sessions};
use belvedere_web::http::Error;

/// Minimum time between two writes of one `last_used_at`: it only has to tell days from months, and a write for each
/// request would cost more than the request.
const TOUCH_EVERY_SECONDS: i64 = 60;

/// Users, keys, sessions and API clients whose last write is remembered. With more of them, some are written more often.
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub struct Users {
    /// Whether a user is known to exist. Never becomes false again, because the super user can't be deleted. Lets
    /// unknown callers skip the bootstrap query.
    has_users: AtomicBool,
    last_writes: Mutex<HashMap<String, Timestamp>>,
}

impl Users {
    /// The user with an authenticated DID. When there is no user at all, the caller becomes the super user: one
    /// conditional insert decides between concurrent callers.
    ///
    /// # Errors
    /// 403 when the DID is not a user.
    pub(super) async fn of_did(&self, access: &Access, did: &Did, now: Timestamp) -> Result<Admin, Error> {
        let mut user = users::get_by_did(&access.core.db, did.as_str()).await?;
        if user.is_none() && self.bootstrap(access, did, now).await? {
            user = users::get_by_did(&access.core.db, did.as_str()).await?;
        }
        let user = user.ok_or_else(|| Error::forbidden("forbidden"))?;
        Admin::in_person(&user)
            .ok_or_else(|| Error::from(StoreError::Corrupt(format!("the DID of user {}", user.id))))
    }

    /// The admin user with a DID, as it may act in person; `None` for another account.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn in_person(&self, access: &Access, did: &Did) -> Result<Option<Admin>, StoreError> {
        let user = users::get_by_did(&access.core.db, did.as_str()).await?;
        Ok(user.as_ref().and_then(Admin::in_person))
    }

    /// Whether there is an admin user.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn exist(&self, access: &Access) -> Result<bool, StoreError> {
        if !self.has_users.load(Ordering::Relaxed) && !users::list(&access.core.db).await?.is_empty() {
            self.has_users.store(true, Ordering::Relaxed);
        }
        Ok(self.has_users.load(Ordering::Relaxed))
    }

    /// Whether an account may log in: that of an admin user, or any account as long as there are no users.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn may_log_in(&self, access: &Access, did: &Did) -> Result<bool, StoreError> {
        if users::get_by_did(&access.core.db, did.as_str()).await?.is_some() {
            return Ok(true);
        }
        Ok(users::list(&access.core.db).await?.is_empty())
    }

    /// Makes the DID the first user if there is none, and returns whether it did.
    async fn bootstrap(&self, access: &Access, did: &Did, now: Timestamp) -> Result<bool, StoreError> {
        if self.has_users.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let permissions: Vec<&str> = Permission::ALL.iter().map(|p| p.as_str()).collect();
        let first =
            users::bootstrap(&access.core.db, &access.core.random.uuid(), did.as_str(), &permissions, now)
                .await?;
        self.has_users.store(true, Ordering::Relaxed);
        if first {
            tracing::info!(%did, "the first caller has become the super user");
            access.core.events.record(Event::UserBootstrapped { did: did.to_string() });
        }
        Ok(first)
    }

    /// Records that a user made a request.
    pub(super) fn touch(&self, access: &Access, id: &str, now: Timestamp) {
        if self.is_due(id, now) {
            let (db, id) = (access.core.db.clone(), id.to_owned());
            access.core.tasks.spawn(async move { log_failure(users::touch(&db, &id, now).await) });
        }
    }

    /// Records that an API key was used.
    pub(super) fn touch_key(&self, access: &Access, id: &str, now: Timestamp) {
        if self.is_due(id, now) {
            let (db, id) = (access.core.db.clone(), id.to_owned());
            access.core.tasks.spawn(async move { log_failure(api_keys::touch(&db, &id, now).await) });
        }
    }

    /// Records that a browser's session was used by a client with this address.
    pub(super) fn touch_session(&self, access: &Access, id: &str, address: IpAddr, now: Timestamp) {
        if self.is_due(id, now) {
            let (db, id) = (access.core.db.clone(), id.to_owned());
            access.core.tasks.spawn(async move {
                log_failure(web_sessions::touch(&db, &id, &address.to_string(), now).await);
            });
        }
    }

    /// Records that an API client called a method.
    pub(super) fn touch_client(&self, access: &Access, id: &str, now: Timestamp) {
        if self.is_due(id, now) {
            let (db, id) = (access.core.db.clone(), id.to_owned());
            access.core.tasks.spawn(async move { log_failure(api_clients::touch(&db, &id, now).await) });
        }
    }

    fn is_due(&self, id: &str, now: Timestamp) -> bool {
        let mut last_writes = self.last_writes.lock().unwrap_or_else(PoisonError::into_inner);
        match last_writes.get_mut(id) {
            Some(last) if last.plus_seconds(TOUCH_EVERY_SECONDS) > now => false,
            Some(last) => {
                *last = now;
                true
            }
            None => {
                if last_writes.len() >= MAX_REMEMBERED {
                    last_writes.clear();
                }
                last_writes.insert(id.to_owned(), now);
                true
            }
        }
    }
}

/// The request does not depend on the write, so a failure is only logged.
fn log_failure(result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "last_used_at could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_used_at_is_written_once_a_minute() {
        let users = Users::default();
        let at = |seconds: i64| Timestamp(0).plus_seconds(seconds);
        assert!(users.is_due("a", at(0)));
        assert!(users.is_due("b", at(1)));
        assert!(!users.is_due("a", at(59)));
        assert!(users.is_due("a", at(60)));
        assert!(!users.is_due("a", at(61)));
    }
}
