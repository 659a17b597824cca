//! A part of an instance: what the server's lists show of it, and the requests that make it.

use http::Method;
use serde_json::{Value, json};

/// The place in a path for the `id` in the answer to the request before, or for that of what the server has.
const ID: &str = "{id}";

/// The place in a path for the id of the part's owner.
const OWNER: &str = "{owner}";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Variable,
    Domain,
    Setting,
    User,
    Key,
    Lexicon,
    Script,
    Labeler,
    Service,
    Client,
    LinkedRepo,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Variable => "script variable",
            Self::Domain => "domain",
            Self::Setting => "setting",
            Self::User => "user",
            Self::Key => "admin API key",
            Self::Lexicon => "lexicon",
            Self::Script => "script",
            Self::Labeler => "labeler",
            Self::Service => "service",
            Self::Client => "application",
            Self::LinkedRepo => "linked repo",
        }
    }
}

/// A part that the server takes or refuses as one.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) kind: Kind,
    /// For people.
    pub(super) name: String,
    /// Identifies it among the server's parts of its kind.
    pub(super) key: String,
    /// The DID of the user that it belongs to.
    pub(super) owner: Option<String>,
    /// Fields as the server's lists have them.
    pub(super) wanted: Value,
    /// They make it where there is none.
    pub(super) requests: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

impl Request {
    pub(super) fn new(method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body: Some(body) }
    }

    pub(super) fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::POST, path, body)
    }

    /// The path, with the ids that are known when it is sent.
    pub(super) fn path(&self, id: &str, owner: &str) -> String {
        self.path.replace(ID, id).replace(OWNER, owner)
    }
}

impl Part {
    pub(super) fn new(
        kind: Kind,
        name: &str,
        wanted: Value,
        requests: impl IntoIterator<Item = Request>,
    ) -> Self {
        let (name, key) = (name.to_owned(), name.to_owned());
        Self { kind, name, key, owner: None, wanted, requests: requests.into_iter().collect() }
    }

    /// The requests that make it of the part that the server has.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(super) fn replacing(&self, there: &Value) -> Result<Vec<Request>, &'static str> {
        let own = |method, path: String, body| Ok(vec![Request::new(method, path, body)]);
        match self.kind {
            Kind::Variable | Kind::Domain | Kind::Setting | Kind::Lexicon | Kind::Script => {
                Ok(self.requests.clone())
            }
            Kind::Labeler => own(Method::PATCH, format!("/admin/labelers/{}", self.key), self.wanted.clone()),
            Kind::User => {
                let path = format!("/admin/users/{ID}/permissions");
                let missing = |from: &Value, of: &Value| -> Vec<Value> {
                    let (from, of) = (from["permissions"].as_array(), of["permissions"].as_array());
                    let has = |name: &&Value| from.is_some_and(|from| from.contains(name));
                    of.into_iter().flatten().filter(|name| !has(name)).cloned().collect()
                };
                let (grant, revoke) = (missing(there, &self.wanted), missing(&self.wanted, there));
                own(Method::PATCH, path, json!({ "grant": grant, "revoke": revoke }))
            }
            Kind::Service => {
                let path = format!("/admin/service-entries/{ID}");
                let removed = Request { method: Method::DELETE, path, body: None };
                Ok([vec![removed], self.requests.clone()].concat())
            }
            Kind::Client => {
                if ["client_id_url", "client_type", "owner_did"]
                    .iter()
                    .any(|field| there[field] != self.wanted[field])
                {
                    return Err(
                        "client_id_url, client_type and owner_did never change: delete it there first",
                    );
                }
                own(Method::PUT, format!("/admin/api-clients/{ID}"), self.wanted.clone())
            }
            Kind::Key => Err("a key never changes: its user can revoke it and create another one"),
            Kind::LinkedRepo => Err("its owner agrees to its scopes: delete it there first"),
        }
    }
}

/// The path of a created service or application.
pub(super) fn created(collection: &str) -> String {
    format!("{collection}/{ID}")
}

/// The path of the keys of the part's owner.
pub(super) fn keys_of_owner() -> String {
    format!("/admin/users/{OWNER}/api-keys")
}
