//! Names to addresses and texts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

use super::policy::{Route, Way};
use super::{NetError, OutboundPolicy, guard};

/// How long one name server may take over one question; there are two attempts.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(3);

/// Answers kept, for as long as they say themselves but no longer than [`MAX_TTL`].
const CACHE_ANSWERS: u64 = 4096;

/// A name may say that it is valid for days; after an hour it is asked for again all the same.
const MAX_TTL: Duration = Duration::from_hours(1);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Dns(Arc<TokioResolver>);

/// Every address of a name is off limits.
#[derive(Debug, thiserror::Error)]
#[error("{0} resolves to no address that may be connected to")]
pub(super) struct Blocked(String);

impl Dns {
    /// Asks `server`, or those of the system.
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
        tune(builder.options_mut());
        let resolver = builder.build().map_err(|error| NetError::Dns(error.to_string()))?;
        Ok(Self(Arc::new(resolver)))
    }

    /// The addresses of a host that the policy permits on the route; never none.
    pub(super) async fn addresses(
        &self,
        host: &str,
        policy: &OutboundPolicy,
        route: Route,
    ) -> Result<Vec<IpAddr>, NetError> {
        let all = if guard::is_localhost(host) {
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        } else {
            // A stranger's name is whole as it is; the search list is for those the operator wrote.
            let name = match route.way {
                Way::Guarded if !host.ends_with('.') => format!("{host}."),
                _ => host.to_owned(),
            };
            let failed = |error| NetError::Dns(format!("{host}: {error}"));
            self.0.lookup_ip(name).await.map_err(failed)?.iter().collect()
        };
        let permitted = |ip: &IpAddr| policy.permits(*ip, route);
        let addresses: Vec<IpAddr> = all.into_iter().filter(permitted).collect();
        if addresses.is_empty() {
            return Err(NetError::Refused(Blocked(host.to_owned()).to_string()));
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

    /// The resolver for a client that takes one route only.
    pub(super) fn for_reqwest(&self, policy: &Arc<OutboundPolicy>, route: Route) -> ReqwestDns {
        ReqwestDns { dns: self.clone(), policy: Arc::clone(policy), route }
    }
}

fn tune(options: &mut ResolverOpts) {
    options.timeout = QUESTION_TIMEOUT;
    options.attempts = 2;
    options.cache_size = CACHE_ANSWERS;
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_TTL);
    options.try_tcp_on_error = true;
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dns")
    }
}

/// Gives reqwest only addresses that passed the guard: it connects to exactly these, so a name can't change its mind
/// between check and connection.
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
