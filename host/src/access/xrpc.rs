//! `/xrpc`: which application is calling, on behalf of whom.

use std::sync::Arc;

use super::ApiClient;
use crate::atproto::Did;

/// Who is behind an XRPC request.
#[derive(Clone, Debug, Default)]
pub struct XrpcCaller {
    /// The application. `None` only for those who need none: service tokens, session cookies.
    pub client: Option<Arc<ApiClient>>,
    user: Option<Did>,
}

impl XrpcCaller {
    /// The authenticated user; `None` for an anonymous call.
    pub fn did(&self) -> Option<&Did> {
        self.user.as_ref()
    }
}
