//! A line of the route table, and how it becomes an endpoint.

mod admin;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;

use super::answer::{Answer, Outcome};
use super::charged::{paid, paid_answer, with_budget};
use super::input::Input;
#[cfg(test)]
use super::types::Types;
use super::xrpc::input::is_for_another_server;
use super::{call_history, page};
use crate::access::{
    AccountCaller, Admission, ApiClient, CalledMethod, ClientUser, PermissionSet, PublicLimit, Rejected,
    SessionAccess,
};
use crate::app::App;
use crate::methods::spaces;
use belvedere_instance::events::requester;
use belvedere_instance::xrpc::{Caller, Verb};
use belvedere_protocol::atproto::Nsid;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::router::{Endpoint, Handler};
use belvedere_web::http::{Error, Request, Response, limits};

type Answering = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;
type Bind = Box<dyn FnOnce(Arc<App>) -> Handler>;

/// One line of the table: method, path, access rule and handler.
pub struct Route {
    method: Method,
    path: &'static str,
    /// `None` outside of `/admin`.
    permissions: Option<PermissionSet>,
    /// The rate limit of a public route; `None` for the others, which identify their callers.
    limit: Option<&'static PublicLimit>,
    /// The path is the name of a method in the service's own namespace.
    namespaced: bool,
    /// The types of the handler.
    #[cfg(test)]
    pub(super) types: Types,
    bind: Bind,
}

pub(super) type RouteTable = Vec<Route>;

/// Makes a handler of an access check and the work after it, as one boxed future. Events that occur meanwhile have the
/// client's address.
fn bound<F>(run: impl Fn(Arc<App>, Request, UnreadBody) -> F + Send + Sync + 'static) -> Bind
where
    F: Future<Output = Result<Response, Error>> + Send + 'static,
{
    Box::new(move |app| {
        Box::new(move |request, unread| -> Answering {
            let address = app.access.client_address(&request);
            Box::pin(requester::scope(address, run(Arc::clone(&app), request, unread)))
        })
    })
}

impl Route {
    #[cfg_attr(
        not(test),
        expect(clippy::extra_unused_type_parameters, reason = "only tests describe the API")
    )]
    fn new<I: Input, A: Answer>(
        method: Method,
        path: &'static str,
        permissions: Option<PermissionSet>,
        bind: Bind,
    ) -> Self {
        Self {
            method,
            path,
            permissions,
            limit: None,
            namespaced: false,
            #[cfg(test)]
            types: Types::of::<I, A>(),
            bind,
        }
    }

    /// Any caller, within a rate limit.
    pub fn public<I: Input, H, F>(
        limit: &'static PublicLimit,
        method: Method,
        path: &'static str,
        handler: H,
    ) -> Self
    where
        H: Fn(Arc<App>, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        let bind = bound(move |app, request, unread| paid_answer(limit, handler, app, request, unread));
        Self { limit: Some(limit), ..Self::new::<I, F::Answer>(method, path, None, bind) }
    }

    /// A route that exists while spaces are switched on.
    pub(super) fn of_spaces(self) -> Self {
        let bind = self.bind;
        let bind: Bind = Box::new(move |app| spaces::while_enabled(&app, bind(Arc::clone(&app))));
        Self { bind, ..self }
    }

    /// Like [`Self::public`], for a page that people open in a browser, or a form that it sends: its errors are pages too,
    /// unless the client asks for JSON.
    pub fn page<I: Input, H, F>(
        limit: &'static PublicLimit,
        method: Method,
        path: &'static str,
        handler: H,
    ) -> Self
    where
        H: Fn(Arc<App>, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        let bind = bound(move |app, request: Request, unread| async move {
            let (json, id) = (page::wants_json(request.headers()), request.id.clone());
            match paid_answer(limit, handler, app, request, unread).await {
                Err(error) if !json => {
                    error.log_cause(path, &id);
                    page::of_error(error, &id, None)
                }
                answer => answer,
            }
        });
        Self { limit: Some(limit), ..Self::new::<I, F::Answer>(method, path, None, bind) }
    }

    /// An authenticated application that may provision keys and register sessions.
    pub fn application<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Arc<ApiClient>, Request) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let client = app.access.admit_application(&request)?;
            request.body = unread.read(limits::JSON_BODY).await?;
            handler(app, client, request).await
        });
        Self::new::<Request, Response>(method, path, None, bind)
    }

    /// An application that the request names. The handler authenticates it, in one of several ways.
    pub fn named<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Arc<ApiClient>, Request) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let client = app.access.named_client(&request)?;
            request.body = unread.read(limits::JSON_BODY).await?;
            handler(app, client, request).await
        });
        Self::new::<Request, Response>(method, path, None, bind)
    }

    /// A caller that may access a user's sessions: the application with its secret, or one of the user's devices.
    pub fn session_access<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, SessionAccess, Request) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let caller = app.access.admit_session_access(&request).await?;
            request.body = unread.read(limits::JSON_BODY).await?;
            handler(app, caller, request).await
        });
        Self::new::<Request, Response>(method, path, None, bind)
    }

    /// An API client, perhaps with a user. The last part of the path is the method.
    pub fn xrpc<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Caller, Request) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        Self::xrpc_upload(method, path, move |app, caller, mut request, unread: UnreadBody| async move {
            request.body = unread.read(limits::JSON_BODY).await?;
            handler(app, caller, request).await
        })
    }

    /// Like [`Self::xrpc`], for a handler that streams the body.
    pub fn xrpc_upload<H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, Caller, Request, UnreadBody) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            // The domain of an NSID has no letter case, and lexicons are stored in lower case.
            if let Some((_, nsid)) = request.params.first_mut()
                && let Ok(parsed) = Nsid::try_from(nsid.as_str())
            {
                *nsid = parsed.to_string();
            }
            let nsid = request.params.first().map(|(_, nsid)| nsid.as_str());
            if let Some(nsid) = nsid.and_then(|nsid| Nsid::try_from(nsid).ok())
                && spaces::is_method(&app.config.auth.service_namespace, nsid.as_str())
                && !is_for_another_server(&app, &request)
            {
                let verb = verb(request.method());
                return super::xrpc::spaces::answer(app, verb, &nsid, request, unread).await;
            }
            if let Some(nsid) = nsid
                && super::xrpc::labels::is_method(&app, &request, nsid)
                && !is_for_another_server(&app, &request)
            {
                let nsid = nsid.to_owned();
                return super::xrpc::labels::answer(app, &nsid, request).await;
            }
            let method = CalledMethod {
                nsid: nsid.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default()),
                verb: verb(request.method()),
                is_fixed: nsid.is_none(),
            };
            let call = call_history::begin(&app, method);
            match app.access.admit_xrpc(&request, method).await {
                Ok(Admission { caller, budget, .. }) => {
                    let client = caller.client.clone();
                    let answer = handler(Arc::clone(&app), caller, request, unread).await;
                    call.end(&app, client.as_deref(), &answer);
                    with_budget(answer, budget)
                }
                Err(Rejected { error, budget }) => {
                    let answer = Err(error);
                    call.refused(&app, &request, &answer);
                    answer.map_err(|error| paid(error, budget))
                }
            }
        });
        Self::new::<Request, Response>(method, path, None, bind)
    }

    /// A user's DPoP session, for a method of the service's own namespace (`SERVICE_NAMESPACE`).
    pub fn management<H, F>(method: Method, name: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, ClientUser, Request) -> F + Copy + Send + Sync + 'static,
        F: Future<Output = Result<Response, Error>> + Send + 'static,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let nsid = format!("{}.{name}", app.config.auth.service_namespace);
            let method = CalledMethod { nsid: &nsid, verb: verb(request.method()), is_fixed: true };
            let call = call_history::begin(&app, method);
            let caller = match app.access.admit_management(&request, method).await {
                Ok(caller) => caller,
                Err(Rejected { error, budget }) => {
                    let answer = Err(error);
                    call.refused(&app, &request, &answer);
                    return answer.map_err(|error| paid(error, budget));
                }
            };
            let (budget, client) = (caller.budget(), caller.client.id.clone());
            let answer = async {
                request.body = unread.read(limits::JSON_BODY).await?;
                handler(Arc::clone(&app), caller, request).await
            };
            let answer = answer.await;
            call.end(&app, Some(&*client), &answer);
            with_budget(answer, budget)
        });
        Self { namespaced: true, ..Self::new::<Request, Response>(method, name, None, bind) }
    }

    /// A user with a session, who links accounts at other services.
    pub fn account<I: Input, H, F>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Arc<App>, AccountCaller, I) -> F + Copy + Send + Sync + 'static,
        F: Outcome,
    {
        let bind = bound(move |app, mut request, unread: UnreadBody| async move {
            let caller = match app.access.admit_account_caller(&request).await {
                Ok(caller) => caller,
                Err(Rejected { error, budget }) => return Err(paid(error, budget)),
            };
            let budget = caller.budget();
            let answer = async {
                request.body = unread.read(limits::JSON_BODY).await?;
                handler(app, caller, I::from(request)).await.map(Answer::respond)
            };
            with_budget(answer.await, budget)
        });
        Self::new::<I, F::Answer>(method, path, None, bind)
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The permissions that a user needs; `None` outside of `/admin`.
    #[cfg(test)]
    pub fn permissions(&self) -> Option<PermissionSet> {
        self.permissions
    }

    /// The rate limit, of public routes only.
    #[cfg(test)]
    pub fn limit(&self) -> Option<&'static PublicLimit> {
        self.limit
    }

    /// The path, where the service's own namespace is `namespace`.
    pub fn full_path(&self, namespace: &str) -> Cow<'static, str> {
        if self.namespaced { format!("/xrpc/{namespace}.{}", self.path).into() } else { self.path.into() }
    }

    pub(super) fn bind(self, app: &Arc<App>) -> Endpoint {
        let path = match self.full_path(&app.config.auth.service_namespace) {
            Cow::Borrowed(path) => path,
            // Leaks a few names per start; routes live as long as the program.
            Cow::Owned(path) => path.leak(),
        };
        Endpoint::new(self.method, path, (self.bind)(Arc::clone(app)))
    }
}

fn verb(method: &Method) -> Verb {
    if *method == Method::POST { Verb::Procedure } else { Verb::Query }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("permissions", &self.permissions)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
