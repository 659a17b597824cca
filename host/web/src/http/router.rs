//! Maps method and path to an endpoint.
//!
//! The table is built once at start and never changes. A path belongs to one pattern: the most literal one wins. HEAD
//! is answered by GET's endpoint. The router decides between 404 and 405 and nothing else.

use std::borrow::Cow;
use std::pin::Pin;

use http::{HeaderValue, Method};
use matchit::InsertError;

use super::body::UnreadBody;
use super::route_metrics::RouteMetrics;
use super::{Error, Request, Response};

/// The future of a handler. Boxing it is the only allocation of routing.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send>>;

/// Handles a request whose body has not been read yet, so that an unauthorized request is refused before its body is
/// read.
pub type Handler = Box<dyn Fn(Request, UnreadBody) -> Answer + Send + Sync>;

/// A handler with its pattern, method and metrics.
pub struct Endpoint {
    /// The pattern, for metrics: `/admin/lexicons/{id}`.
    pub pattern: &'static str,
    pub handler: Handler,
    pub(super) method: Method,
    pub(super) metrics: RouteMetrics,
}

impl Endpoint {
    pub fn new(method: Method, pattern: &'static str, handler: Handler) -> Self {
        Self { metrics: RouteMetrics::new(method.as_str(), pattern), pattern, handler, method }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}

/// The endpoints of one path, by method. There are few, so a list is faster than a map.
#[derive(Debug, Default)]
struct Methods {
    endpoints: Vec<Endpoint>,
    allow: Option<HeaderValue>,
}

/// The route table.
#[derive(Debug, Default)]
pub struct Router {
    paths: matchit::Router<usize>,
    methods: Vec<(&'static str, Methods)>,
}

/// The result of a route look-up.
#[derive(Debug)]
pub enum RouteMatch<'a> {
    Endpoint(&'a Endpoint, Vec<(&'static str, String)>),
    /// The path exists, but not with this method; holds the value of `Allow`.
    OtherMethods(HeaderValue),
    Nothing,
}

/// A mistake in the route table.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRoute {
    #[error("the route {0} {1} is defined twice")]
    Duplicate(Method, &'static str),
    #[error("the path {0} conflicts with another: {1}")]
    Ambiguous(&'static str, InsertError),
}

impl Router {
    /// Adds a route. Parameters are written `{name}`.
    ///
    /// # Errors
    /// When the path conflicts with another, or already has the method.
    pub fn add(&mut self, endpoint: Endpoint) -> Result<(), InvalidRoute> {
        let path = endpoint.pattern;
        let index = if let Some(index) = self.methods.iter().position(|(known, _)| *known == path) {
            index
        } else {
            self.paths.insert(path, self.methods.len()).map_err(|e| InvalidRoute::Ambiguous(path, e))?;
            self.methods.push((path, Methods::default()));
            self.methods.len() - 1
        };
        let methods = &mut self.methods[index].1;
        if methods.endpoints.iter().any(|known| known.method == endpoint.method) {
            return Err(InvalidRoute::Duplicate(endpoint.method, path));
        }
        methods.endpoints.push(endpoint);
        methods.allow = Some(allow(methods.endpoints.iter().map(|e| &e.method)));
        Ok(())
    }

    pub fn find(&self, method: &Method, path: &str) -> RouteMatch<'_> {
        let Ok(matched) = self.paths.at(path) else { return RouteMatch::Nothing };
        let (pattern, methods) = &self.methods[*matched.value];
        let wanted = if *method == Method::HEAD { &Method::GET } else { method };
        match methods.endpoints.iter().find(|known| known.method == *wanted) {
            Some(endpoint) => {
                if matched.params.is_empty() {
                    return RouteMatch::Endpoint(endpoint, Vec::new());
                }
                match params(pattern, &matched.params) {
                    Some(params) => RouteMatch::Endpoint(endpoint, params),
                    None => RouteMatch::Nothing,
                }
            }
            None => methods.allow.clone().map_or(RouteMatch::Nothing, RouteMatch::OtherMethods),
        }
    }
}

/// Percent-decoded parameters; `None` when one is not UTF-8, which matches no resource.
fn params(pattern: &'static str, matched: &matchit::Params<'_, '_>) -> Option<Vec<(&'static str, String)>> {
    matched
        .iter()
        .map(|(name, value)| {
            let value = percent_encoding::percent_decode_str(value).decode_utf8().ok()?;
            Some((name_in(pattern, name)?, Cow::into_owned(value)))
        })
        .collect()
}

/// The parameter's name as a slice of the pattern, which is `'static`.
fn name_in(pattern: &'static str, name: &str) -> Option<&'static str> {
    pattern.split('/').find_map(|segment| {
        let inner = segment.strip_prefix('{')?.strip_suffix('}')?;
        let inner = inner.strip_prefix('*').unwrap_or(inner);
        (inner == name).then_some(inner)
    })
}

fn allow<'a>(methods: impl Iterator<Item = &'a Method>) -> HeaderValue {
    let mut names = Vec::new();
    for method in methods {
        names.push(method.as_str());
        if *method == Method::GET {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    HeaderValue::try_from(names.join(", ")).unwrap_or(HeaderValue::from_static("OPTIONS"))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::http::response;

    fn table(routes: &[(Method, &'static str)]) -> Result<Router, InvalidRoute> {
        let mut built = Router::default();
        for (method, pattern) in routes {
            let handler: Handler = Box::new(|_, _| Box::pin(async { Ok(response::empty(StatusCode::OK)) }));
            built.add(Endpoint::new(method.clone(), pattern, handler))?;
        }
        Ok(built)
    }

    #[test]
    fn finds_the_most_literal_path_and_decodes_parameters() {
        let router = table(&[
            (Method::GET, "/admin/scripts"),
            (Method::GET, "/admin/scripts/{id}"),
            (Method::DELETE, "/admin/scripts/{id}"),
            (Method::GET, "/admin/scripts/count"),
        ])
        .unwrap();
        let RouteMatch::Endpoint(endpoint, params) =
            router.find(&Method::GET, "/admin/scripts/xrpc.query%3Acom.example.list")
        else {
            panic!("not found")
        };
        assert_eq!(endpoint.pattern, "/admin/scripts/{id}");
        assert_eq!(params, [("id", "xrpc.query:com.example.list".to_owned())]);
        let RouteMatch::Endpoint(endpoint, _) = router.find(&Method::HEAD, "/admin/scripts/count") else {
            panic!("not found")
        };
        assert_eq!(endpoint.pattern, "/admin/scripts/count");
        for nothing in ["/", "/admin", "/admin/scripts/", "/admin/scripts/a/b", "/admin/scripts/%ff"] {
            assert!(matches!(router.find(&Method::GET, nothing), RouteMatch::Nothing), "{nothing}");
        }
    }

    #[test]
    fn allow_lists_the_methods_of_a_path() {
        let router = table(&[(Method::GET, "/a"), (Method::POST, "/a")]).unwrap();
        let RouteMatch::OtherMethods(allow) = router.find(&Method::PUT, "/a") else { panic!("found") };
        assert_eq!(allow, "GET, HEAD, POST, OPTIONS");
    }

    #[test]
    fn refuses_ambiguous_tables() {
        let twice = table(&[(Method::GET, "/a"), (Method::GET, "/a")]).unwrap_err();
        assert!(matches!(twice, InvalidRoute::Duplicate(..)));
        let same = table(&[(Method::GET, "/a/{x}"), (Method::GET, "/a/{y}")]).unwrap_err();
        assert!(matches!(same, InvalidRoute::Ambiguous(..)));
    }
}
