//! Rate limits of routes that need no authentication, by the sender's address and by the target that the request names.
//! Every public route of the route table has one of these.
//!
//! Behind a proxy that is missing in `TRUSTED_PROXIES`, all callers share one address. The limits are high enough that
//! a small instance still works then.

use super::rate_limit::Limit;
use belvedere_protocol::atproto::{Did, typed};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Request;

/// Extracts the target that a request names.
type Target = fn(&Request) -> Option<Tenant>;

/// The limit of a public route: a call takes one token from each bucket that is set.
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

    /// Unlimited: answered from memory, for supervisors that must always get an answer.
    pub const FREE: Self = Self { name: "free", by_address: None, by_target: None };

    /// A readiness check, which queries the database. Load balancers send one a second, each from its own address.
    pub const PROBE: Self = Self::by_address("probe", 600.0, 100.0);

    /// A few queries or a page, which browsers and authorization servers request now and then.
    pub const PAGE: Self = Self::by_address("page", 300.0, 20.0);

    /// A picture of up to 5 MiB, decoded for each request.
    pub const PICTURE: Self = Self::by_address("picture", 30.0, 2.0);

    /// Requests to the user's servers and a row. Also limited by the domain of the user's handle or did:web, so that
    /// the instance can't be used to attack it: at ten times the rate of one address, so that it takes ten addresses to
    /// lock out a domain's users.
    pub const LOGIN: Self = Self::by_address("login", 30.0, 0.5).and_by_target(login_target, 100.0, 5.0);

    /// A write, and after a login requests to the user's servers.
    pub const CALLBACK: Self = Self::by_address("callback", 60.0, 1.0);

    /// A call from a page of a public client, which can prove nothing: a key pair, a row. A login takes four calls.
    /// Also limited by client, at ten times the rate of one address, which bounds the rows per hour.
    /// [`Sender::pay_for_client`](super::Sender::pay_for_client) supplies the client's tenant.
    pub const APPLICATION_PAGE: Self =
        Self::by_address("application", 60.0, 1.0).and_by_target(|_| None, 600.0, 10.0);
}

/// The domain that a login contacts first. A did:plc is its own target: its server is not known yet.
fn login_target(request: &Request) -> Option<Tenant> {
    let handle = request.query("handle")?;
    let handle = typed(&handle);
    let handle = handle.trim_start_matches('@');
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
    use belvedere_web::http::request::NO_PEER;

    #[test]
    fn the_target_of_a_login_is_a_domain() {
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
            ("?handle=%E2%80%AA%40b.evil.example%E2%80%AC", Some("domain evil.example")),
            ("?handle=did:web:c.evil.example%253A8080", Some("domain evil.example")),
            ("?handle=did:plc:abc", Some("domain did:plc:abc")),
        ] {
            assert_eq!(target(query).as_deref(), expected, "{query}");
        }
    }
}
