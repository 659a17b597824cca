//! Resolves host names: to addresses that the outbound policy permits, and to TXT records.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use super::policy::{AddressCheck, Route};
use super::{NetError, OutboundPolicy, guard};

/// Timeout of one query to one name server; there are two attempts.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Cached responses. Each is kept for its TTL, at most for [`MAX_TTL`].
const CACHE_ENTRIES: u64 = 4096;

/// Caps TTLs of days: after an hour a name is looked up again.
const MAX_TTL: Duration = Duration::from_hours(1);

/// The DNS resolver of [`super::Client`]. Cheap to clone.
#[derive(Clone)]
pub(super) struct Dns(Arc<TokioResolver>);

/// The policy permits none of the addresses of a name.
#[derive(Debug, thiserror::Error)]
#[error("{0} resolves to no address that may be connected to")]
pub(super) struct NoPermittedAddress(String);

impl Dns {
    /// Queries `server`, or without one the name servers of the system.
    ///
    /// # Errors
    /// [`NetError::Dns`] when the resolver can't be built.
    pub(super) fn new(server: Option<SocketAddr>) -> Result<Self, NetError> {
        let mut builder = match server {
            Some(server) => {
                let mut config = NameServerConfig::udp_and_tcp(server.ip());
                for connection in &mut config.connections {
                    connection.port = server.port();
                }
                let config = ResolverConfig::from_name_servers(vec![config]);
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
            None => TokioResolver::builder_tokio().unwrap_or_else(|error| {
                tracing::warn!(%error, "no DNS servers configured on this system: only addresses and /etc/hosts work");
                let config = ResolverConfig::from_name_servers(Vec::new());
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            }),
        };
        set_options(builder.options_mut());
        let resolver = builder.build().map_err(|error| NetError::Dns(error.to_string()))?;
        Ok(Self(Arc::new(resolver)))
    }

    /// The addresses of a host that the policy permits on the route.
    ///
    /// # Errors
    /// [`NetError::Dns`] when the look-up fails, [`NetError::Refused`] when the policy permits none of the addresses.
    pub(super) async fn addresses(
        &self,
        host: &str,
        policy: &OutboundPolicy,
        route: Route,
    ) -> Result<Vec<IpAddr>, NetError> {
        let all = if guard::is_localhost(host) {
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        } else {
            // A guarded name is absolute: the resolver's search list applies only to names from the configuration.
            let name = match route.address_check {
                AddressCheck::Guarded if !host.ends_with('.') => format!("{host}."),
                _ => host.to_owned(),
            };
            let failed = |error| NetError::Dns(format!("{host}: {error}"));
            self.0.lookup_ip(name).await.map_err(failed)?.iter().collect()
        };
        let permitted = |ip: &IpAddr| policy.permits(*ip, route);
        let addresses: Vec<IpAddr> = all.into_iter().filter(permitted).collect();
        if addresses.is_empty() {
            return Err(NetError::Refused(NoPermittedAddress(host.to_owned()).to_string()));
        }
        Ok(addresses)
    }

    /// The TXT records of a name, the strings of each joined. Empty when there are none.
    pub(super) async fn txt(&self, name: &str) -> Result<Vec<String>, NetError> {
        let whole = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
        match self.0.txt_lookup(whole).await {
            Ok(lookup) => Ok(lookup
                .answers()
                .iter()
                .filter_map(|record| match &record.data {
                    RData::TXT(txt) => Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned()),
                    _ => None,
                })
                .collect()),
            Err(error) if error.is_nx_domain() || error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(NetError::Dns(format!("{name}: {error}"))),
        }
    }

    /// The resolver of a reqwest client whose requests all take one route.
    pub(super) fn for_reqwest(&self, policy: &Arc<OutboundPolicy>, route: Route) -> ReqwestDns {
        ReqwestDns { dns: self.clone(), policy: Arc::clone(policy), route }
    }
}

fn set_options(options: &mut ResolverOpts) {
    options.timeout = QUERY_TIMEOUT;
    options.attempts = 2;
    options.cache_size = CACHE_ENTRIES;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_TTL);
    options.try_tcp_on_error = true;
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dns")
    }
}

/// Gives reqwest only addresses that passed the guard. It connects to exactly these, so a name can't resolve
/// differently between check and connection (DNS rebinding).
#[derive(Debug)]
pub(super) struct ReqwestDns {
    dns: Dns,
    policy: Arc<OutboundPolicy>,
    route: Route,
}

impl reqwest::dns::Resolve for ReqwestDns {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (dns, policy, route) = (self.dns.clone(), Arc::clone(&self.policy), self.route);
        Box::pin(async move {
            let addresses = dns.addresses(name.as_str(), &policy, route).await?;
            // Port 0 is replaced by the URL's.
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}
