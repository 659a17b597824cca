//! `/admin`: authenticates the calling user and checks its permissions (service.md, Admin API authentication).

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, Method};

use super::{Access, Credential, Permission, PermissionSet, Sender, service_jwt};
use belvedere_instance::events::{Event, requester};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::api_keys::ApiKeyRow;
use belvedere_storage::store::events::Authentication;
use belvedere_storage::store::users::UserRow;
use belvedere_web::http::{Error, Request};

/// An authenticated admin user, with its permissions in this request.
#[derive(Clone, Debug)]
pub struct Admin {
    pub user_id: String,
    pub did: Did,
    /// The one super user, acting in person. Never true for an API key.
    pub is_super: bool,
    /// The user's permissions; through an API key only those that both the key and the user have.
    pub permissions: PermissionSet,
    /// The permissions that the route requires.
    pub admitted_for: PermissionSet,
    pub via: Via,
}

/// The way in which the user authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// With an API key.
    ApiKey { id: String, name: String },
    /// With a service token, signed with its DID's key.
    ServiceJwt,
    /// With the cookie of a browser session; the id is that of the session with the user's PDS.
    Session { id: String },
}

impl Admin {
    pub fn may(&self, permission: Permission) -> bool {
        self.is_super || self.permissions.contains(permission)
    }

    /// The permissions with these names, if the caller may `action` them: grant them to another user or a key, or revoke
    /// them.
    ///
    /// # Errors
    /// 400 for a name that is not a permission, 403 for a permission that the caller does not have.
    pub fn require_held<'a>(
        &self,
        action: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<&'static str>, Error> {
        let held = names.into_iter().map(|name| match Permission::named(name)? {
            permission if self.may(permission) => Ok(permission.as_str()),
            _ => Err(Error::forbidden(format!("cannot {action} a permission that you do not have"))),
        });
        held.collect()
    }

    /// A user who acts in person; `None` when its stored DID is invalid.
    pub(super) fn in_person(user: &UserRow) -> Option<Self> {
        Some(Self {
            user_id: user.id.clone(),
            did: Did::try_from(user.did.as_str()).ok()?,
            is_super: user.is_super,
            permissions: PermissionSet::from_names(&user.permissions),
            admitted_for: PermissionSet::EMPTY,
            via: Via::ServiceJwt,
        })
    }

    /// A user who acts through one of its keys, with the permissions that both the key and the user have. The super
    /// user has all permissions, but its keys are not super.
    pub(super) fn through_key(user: &UserRow, key: &ApiKeyRow) -> Option<Self> {
        let user = Self::in_person(user)?;
        let of_user = if user.is_super { PermissionSet::all() } else { user.permissions };
        Some(Self {
            is_super: false,
            permissions: PermissionSet::from_names(&key.permissions).intersection(of_user),
            via: Via::ApiKey { id: key.id.clone(), name: key.name.clone() },
            ..user
        })
    }
}

impl Access {
    /// Authenticates the caller, who must be a user that has all of `needed`.
    ///
    /// # Errors
    /// 401 without a valid credential, 403 when the caller is not a user or lacks a permission.
    pub async fn admit_admin(&self, request: &Request, needed: PermissionSet) -> Result<Admin, Error> {
        let admin = authenticate(self, request).await?;
        let Some(missing) = needed.iter().find(|p| !admin.may(*p)) else {
            return Ok(Admin { admitted_for: needed, ..admin });
        };
        self.core.events.record(Event::PermissionDenied {
            caller: admin.did.to_string(),
            user_id: admin.user_id,
            permission: missing.as_str().to_owned(),
        });
        Err(Error::forbidden("insufficient permissions").with_message(format!("this needs {missing}")))
    }

    /// Whether a caller who was admitted with these headers still would be, for responses that stay open. A service
    /// token is not verified again: it counts once. A failing database refuses no caller.
    pub async fn still_admits(&self, admin: &Admin, headers: &HeaderMap) -> bool {
        let now = self.core.clock.now();
        if matches!(admin.via, Via::Session { .. }) {
            let session = self.web_sessions.user(&Method::GET, headers, now).await;
            if session.is_ok_and(|user| user.is_none_or(|user| user.did != admin.did)) {
                return false;
            }
        }
        let found = match (&admin.via, Credential::of(headers)) {
            (Via::ApiKey { .. }, Credential::AdminKey(key)) => {
                self.admin_keys.resolve(&self.core.db, key, now).await
            }
            _ => self.users.in_person(self, &admin.did).await,
        };
        found.map_or(true, |found| found.is_some_and(|found| admin.admitted_for.iter().all(|p| found.may(p))))
    }
}

impl Access {
    /// Authenticates the caller as an account, which need not be a user.
    ///
    /// # Errors
    /// 401 without a valid credential.
    pub async fn authenticated(&self, request: &Request) -> Result<Did, Error> {
        match Credential::of(request.headers()) {
            Credential::Bearer(token) => {
                let sender = Sender::of(self, request);
                sender.check_failures()?;
                let verified = self.tokens.verify(&self.core.resolver, &sender, token, None).await;
                let is_failure = service_jwt::ServiceTokenError::is_failure;
                Ok(sender.charge_if_failure(verified, is_failure)?.did)
            }
            Credential::Absent => {
                let now = self.core.clock.now();
                let user = self.web_sessions.user(request.method(), request.headers(), now).await?;
                Ok(user.ok_or_else(|| unauthorized("authentication required"))?.did)
            }
            _ => authenticate(self, request).await.map(|admin| admin.did),
        }
    }
}

/// Authenticates the caller, in the specification's order: API key, service token, session cookie.
async fn authenticate(access: &Access, request: &Request) -> Result<Admin, Error> {
    let now = access.core.clock.now();
    let sender = Sender::of(access, request);
    let credential = Credential::of(request.headers());
    if !matches!(credential, Credential::Absent) {
        sender.check_failures()?;
    }
    match credential {
        Credential::AdminKey(key) => {
            let admin = access.admin_keys.resolve(&access.core.db, key, now).await?;
            let admin =
                sender.charge_if_failure(admin.ok_or_else(|| unauthorized("invalid API key")), |_| true)?;
            if let Via::ApiKey { id, name } = &admin.via {
                requester::authenticated(Authentication::ApiKey, Some(name));
                access.users.touch_key(access, id, now);
            }
            Ok(admin)
        }
        Credential::Bearer(token) => {
            let verified = access.tokens.verify(&access.core.resolver, &sender, token, None).await;
            let did = sender.charge_if_failure(verified, service_jwt::ServiceTokenError::is_failure)?.did;
            // Anyone can sign with the key of some DID: one that is not a user counts as a failed proof.
            let admin = sender.charge_if_failure(access.users.of_did(access, &did, now).await, |_| true)?;
            access.users.touch(access, &admin.user_id, now);
            Ok(admin)
        }
        Credential::Absent => {
            let user = access.web_sessions.user(request.method(), request.headers(), now).await?;
            let user = user.ok_or_else(|| unauthorized("authentication required"))?;
            let admin = access.users.of_did(access, &user.did, now).await?;
            access.users.touch(access, &admin.user_id, now);
            access.users.touch_session(access, &user.id, access.client_address(request), now);
            Ok(Admin { via: Via::Session { id: user.session }, ..admin })
        }
        Credential::Dpop(_) | Credential::Space(_) | Credential::Unknown => {
            Err(unauthorized("this kind of authorization is not accepted here"))
        }
    }
}

fn unauthorized(text: &'static str) -> Error {
    Error::unauthorized(text).with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;

    fn user(is_super: bool, permissions: &[&str]) -> UserRow {
        UserRow {
            id: "u".to_owned(),
            did: "did:plc:abc".to_owned(),
            is_super,
            permissions: permissions.iter().map(|p| (*p).to_owned()).collect(),
            created_at: Timestamp(0),
            last_used_at: None,
        }
    }

    fn key(user: &UserRow, permissions: &[&str]) -> Admin {
        let key = ApiKeyRow {
            id: "k".to_owned(),
            user_id: user.id.clone(),
            name: "deployments".to_owned(),
            key_prefix: String::new(),
            permissions: permissions.iter().map(|p| (*p).to_owned()).collect(),
            created_at: Timestamp(0),
            last_used_at: None,
            revoked_at: None,
        };
        Admin::through_key(user, &key).unwrap()
    }

    #[test]
    fn the_super_user_has_all_permissions_in_person() {
        let admin = Admin::in_person(&user(true, &[])).unwrap();
        assert!(Permission::ALL.iter().all(|p| admin.may(*p)));
    }

    #[test]
    fn a_key_has_the_permissions_that_it_lists_and_its_user_has() {
        let holder = user(false, &["stats:read", "events:read"]);
        let admin = key(&holder, &["stats:read", "users:delete"]);
        assert!(admin.may(Permission::StatsRead));
        assert!(!admin.may(Permission::EventsRead), "not listed");
        assert!(!admin.may(Permission::UsersDelete), "not one of the user's");
    }

    #[test]
    fn a_key_of_the_super_user_is_not_super() {
        let admin = key(&user(true, &[]), &["stats:read"]);
        assert!(!admin.is_super && admin.may(Permission::StatsRead) && !admin.may(Permission::EventsRead));
    }
}
