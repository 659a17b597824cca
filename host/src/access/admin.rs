//! `/admin`: which user is calling, and what it may do.

use super::{Permission, PermissionSet};
use crate::atproto::Did;

/// An authenticated admin user, with what it may do in this request.
#[derive(Clone, Debug)]
pub struct Admin {
    pub user_id: String,
    pub did: Did,
    /// The one super user, acting in person. Never true for an API key.
    pub is_super: bool,
    /// The user's permissions; through an API key those of the key that the user holds too.
    pub permissions: PermissionSet,
    pub via: Via,
}

/// How the user proved who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// With the API key of this id.
    ApiKey(String),
    /// With a token signed by its DID's key.
    ServiceJwt,
}

impl Admin {
    pub fn may(&self, permission: Permission) -> bool {
        self.is_super || self.permissions.contains(permission)
    }
}

/// API keys looked up lately, so that a call with a key costs no query.
#[derive(Debug, Default)]
pub struct AdminKeys {}

impl AdminKeys {
    /// Forgets every key and what its user may do. To be called after a key was revoked or a user changed.
    pub fn forget(&self) {
        todo!()
    }
}
