//! How often calls may be made that need no proof, by the sender's address and by the target that they name. Every public route of the
//! table names one of these.
//!
//! Behind a proxy that nobody named (`TRUSTED_PROXIES`) all callers are one address: the numbers are such that
//! a small instance works all the same.

use super::rate_limit::Limit;
use crate::atproto::Did;
use crate::fair_share::Tenant;
use crate::http::Request;

/// Finds the target that a request names.
type Target = fn(&Request) -> Option<Tenant>;

/// How often a call may be made: it takes one token from each bucket that is named.
#[derive(Clone, Copy, Debug)]
pub struct PublicLimit {
    /// Buckets of the same name are shared.
    pub name: &'static str,
    pub by_address: Option<Limit>,
    pub by_target: Option<(Target, Limit)>,
}

impl PublicLimit {
    const fn by_address(name: &'static str, capacity: f64, refill_rate: f64) -> Self {
        Self { name, by_address: Some(Limit { capacity, refill_rate }), by_target: None }
    }

    const fn and_by_target(self, target: Target, capacity: f64, refill_rate: f64) -> Self {
        Self { by_target: Some((target, Limit { capacity, refill_rate })), ..self }
    }

    /// Answered from memory, and asked by supervisors that must always get an answer.
    pub const FREE: Self = Self { name: "free", by_address: None, by_target: None };

    /// A look at the database: load balancers ask every second, each from its own address.
    pub const PROBE: Self = Self::by_address("probe", 600.0, 100.0);

    /// A few queries, or a page: what a browser or an authorization server asks for now and then.
    pub const PAGE: Self = Self::by_address("page", 300.0, 20.0);

    /// A picture of up to 5 MiB, decoded for each request.
    pub const PICTURE: Self = Self::by_address("picture", 30.0, 2.0);

    /// Requests to the user's servers and a row. By the domain of the user's handle or did:web too, so that we are no
    /// weapon against it; ten times what one address may, so that it takes ten to keep a domain's users out.
    pub const LOGIN: Self = Self::by_address("login", 30.0, 0.5).and_by_target(login_target, 100.0, 5.0);

    /// A write, and after a login requests to the user's server.
    pub const CALLBACK: Self = Self::by_address("callback", 60.0, 1.0);

    /// A call of a public application's page, which can prove nothing: a key pair, a row. A login takes four. By
    /// the application too: the rows that an hour can bring are bounded. Ten times what one address may.
    pub const APPLICATION_PAGE: Self =
        Self::by_address("application", 60.0, 1.0).and_by_target(|_| None, 600.0, 10.0);
}

/// The domain that a login goes to first. A did:plc is its own target: its server is not known yet.
fn login_target(request: &Request) -> Option<Tenant> {
    let handle = request.query("handle")?;
    let handle = handle.trim().trim_start_matches('@');
    if handle.is_empty() {
        return None;
    }
    Some(match Did::try_from(handle) {
        Ok(did) if did.method() == "web" => {
            Tenant::of_host(did.identifier().split('%').next().unwrap_or_default())
        }
        Ok(did) => Tenant::Domain(did.as_str().into()),
        Err(_) => Tenant::of_host(handle),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::NO_PEER;

    #[test]
    fn a_login_names_a_domain() {
        let target = |query: &str| {
            let (head, ()) = http::Request::get(format!("/auth/login{query}")).body(()).unwrap().into_parts();
            let request = Request {
                head,
                body: bytes::Bytes::new(),
                params: Vec::new(),
                id: String::new(),
                peer: NO_PEER,
            };
            login_target(&request).map(|tenant| tenant.to_string())
        };
        for (query, expected) in [
            ("", None),
            ("?handle=%20", None),
            ("?handle=a.evil.example", Some("domain evil.example")),
            ("?handle=%40B.Evil.example", Some("domain evil.example")),
            ("?handle=did:web:c.evil.example%253A8080", Some("domain evil.example")),
            ("?handle=did:plc:abc", Some("domain did:plc:abc")),
        ] {
            assert_eq!(target(query).as_deref(), expected, "{query}");
        }
    }
}
