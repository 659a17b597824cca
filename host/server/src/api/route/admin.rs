//! Lines for users with permissions.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::{Route, bound};
use crate::access::{Admin, PermissionSet};
use crate::api::answer::{Answer, Outcome};
use crate::api::input::Input;
use crate::app::App;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::{Error, limits};

impl Route {
    /// A user with one permission, or with all of several.
    ///
    /// # Panics
    /// At start, when the set of permissions is empty: such a route would be open to every user.
    pub fn admin<I: Input, H, F>(
        method: Method,
        path: &'static str,
        permissions: impl Into<PermissionSet>,
        handler: H,
    ) -> Self
    where
        H: Fn(Arc<App>, Admin, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        Self::admin_with(method, path, permissions, |unread| unread.read(limits::JSON_BODY), handler)
    }

    /// Like [`Self::admin`], with a JSON body of up to `most` bytes.
    pub fn admin_large<I: Input, H, F>(
        method: Method,
        path: &'static str,
        permissions: impl Into<PermissionSet>,
        most: usize,
        handler: H,
    ) -> Self
    where
        H: Fn(Arc<App>, Admin, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        Self::admin_with(method, path, permissions, move |unread| unread.read(most), handler)
    }

    /// Like [`Self::admin`], with a body of up to `most` bytes of any kind.
    pub fn admin_upload<I: Input, H, F>(
        method: Method,
        path: &'static str,
        permissions: impl Into<PermissionSet>,
        most: usize,
        handler: H,
    ) -> Self
    where
        H: Fn(Arc<App>, Admin, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        Self::admin_with(method, path, permissions, move |unread| unread.read_binary(most), handler)
    }

    fn admin_with<R, B, I: Input, H, F>(
        method: Method,
        path: &'static str,
        permissions: impl Into<PermissionSet>,
        read: R,
        handler: H,
    ) -> Self
    where
        R: Fn(UnreadBody) -> B + Copy + Send + Sync + 'static,
        B: Future<Output = Result<Bytes, Error>> + Send + 'static,
        H: Fn(Arc<App>, Admin, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        let needed = permissions.into();
        assert!(!needed.is_empty(), "{path} names no permission");
        // Checked before the body is read, so that an unauthorized caller can't send megabytes.
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let caller = app.access.admit_admin(&request, needed).await?;
            request.body = read(unread).await?;
            handler(app, caller, I::from(request)).await.map(Answer::respond)
        });
        Self::new::<I, F::Answer>(method, path, Some(needed), bind)
    }

    /// The super user; its API keys are refused.
    pub fn super_user<I: Input, H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Admin, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        Self::admin(method, path, PermissionSet::all(), move |app, caller: Admin, request: I| async move {
            if !caller.is_super {
                return Err(Error::forbidden("only the super user may do that, and not with an API key"));
            }
            handler(app, caller, request).await
        })
    }
}
