//! THE route table: every path of the server, one line a route, with who may call it.
//!
//! A route is made by [`Route::public`], [`Route::admin`], [`Route::any_admin`] or [`Route::xrpc`], and the type of
//! the handler follows: an admin handler takes an [`Admin`], which only a permission check makes.

use std::pin::Pin;
use std::sync::Arc;

use http::Method;

use crate::access::{Admin, Permission, XrpcCaller};
use crate::app::App;
use crate::http::{Error, Request, Response};

type Answer = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;
type Handler<Caller> = Box<dyn Fn(Arc<App>, Caller, Request) -> Answer + Send + Sync>;

/// Who may call a route.
enum Access {
    /// Anybody.
    Public(Handler<()>),
    /// A user with a permission.
    Admin(Permission, Handler<Admin>),
    /// An API client, perhaps with a user; the cost is taken from the client's bucket first.
    Xrpc(Handler<XrpcCaller>),
}

/// One line of the table.
pub struct Route {
    method: Method,
    path: &'static str,
    access: Access,
}

impl Route {
    pub fn public<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        Self {
            method,
            path,
            access: Access::Public(Box::new(move |app, (), request| Box::pin(handler(app, request)))),
        }
    }

    pub fn admin<H, F>(method: Method, path: &'static str, permission: Permission, handler: H) -> Self
    where
        H: Fn(Arc<App>, Admin, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let handler: Handler<Admin> =
            Box::new(move |app, admin, request| Box::pin(handler(app, admin, request)));
        Self { method, path, access: Access::Admin(permission, handler) }
    }

    pub fn xrpc<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, XrpcCaller, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let handler: Handler<XrpcCaller> =
            Box::new(move |app, caller, request| Box::pin(handler(app, caller, request)));
        Self { method, path, access: Access::Xrpc(handler) }
    }
}
