//! Settings of the server: listen address, public names, trusted proxies and data folder.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use url::{Host, Url};

use super::{NumberSetting, Problems, Setting, TrustedProxies, parse};
use belvedere_protocol::atproto::Did;

/// Loopback, because the first authenticated caller becomes the super user: an instance without one must not be
/// reachable from other machines. The container image sets 0.0.0.0; there the port mapping decides.
const HOST: Setting<IpAddr> = Setting {
    variable: "HOST",
    default: IpAddr::V4(Ipv4Addr::LOCALHOST),
    about: "IP address to listen on; 0.0.0.0 is every interface",
};

const PORT: NumberSetting<u16> = NumberSetting {
    variable: "PORT",
    default: 3000,
    range: 0..=u16::MAX,
    about: "Port to listen on; 0 takes a free one",
};

const DATA_DIR: Setting<&str> = Setting {
    variable: "DATA_DIR",
    default: "data",
    about: "Folder for the database, generated secrets and prepared files",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    #[arg(long, env = HOST.variable, help = HOST.help(), global = true, value_name = "IP")]
    pub host: Option<String>,
    #[arg(long, env = PORT.variable, help = PORT.help(), global = true)]
    pub port: Option<String>,
    /// Public origin, exactly as users reach it: scheme, host, port [default: http://127.0.0.1:PORT]
    #[arg(long, env = "PUBLIC_URL", global = true, value_name = "URL")]
    pub public_url: Option<String>,
    /// DID of this instance, the audience of service tokens [default: did:web of PUBLIC_URL's host]
    #[arg(long, env = "SERVICE_DID", global = true, value_name = "DID")]
    pub service_did: Option<String>,
    /// Addresses and blocks, comma-separated, of reverse proxies whose X-Forwarded-For is trusted [default: none]
    #[arg(long, env = "TRUSTED_PROXIES", global = true, value_name = "ADDRESSES")]
    pub trusted_proxies: Option<String>,
    #[arg(long, env = DATA_DIR.variable, help = DATA_DIR.help(), global = true, value_name = "PATH")]
    pub data_dir: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub host: IpAddr,
    pub port: u16,
    /// The value of `PUBLIC_URL`; [`Server::identity`] applies the default.
    pub public_url: Option<Url>,
    /// The value of `SERVICE_DID`; [`Server::identity`] applies the default.
    pub service_did: Option<Did>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
    pub data_dir: PathBuf,
}

/// The public names of the instance. The defaults depend on the port that it listens on.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Origin without a trailing slash, as browsers write it in `Origin`.
    pub origin: String,
    /// The instance's DID.
    pub did: Did,
    /// Whether the origin is a loopback address. Then outbound calls to this machine are allowed.
    pub is_loopback: bool,
}

impl ServerArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Server {
        let host = parse::text(self.host).map_or(HOST.default, |text| {
            text.parse().unwrap_or_else(|_| {
                problems
                    .add(HOST.variable, format!("{text:?} is not an IP address (127.0.0.1, 0.0.0.0, ::)"));
                HOST.default
            })
        });
        let public_url = parse::text(self.public_url)
            .and_then(|text| parse::url("PUBLIC_URL", &text, &["https", "http"], problems))
            .filter(|url| {
                let bare = url.path() == "/"
                    && url.query().is_none()
                    && url.fragment().is_none()
                    && url.username().is_empty()
                    && url.password().is_none();
                if !bare {
                    problems
                        .add("PUBLIC_URL", "it must be an origin: scheme, host and port, no path".to_owned());
                }
                bare
            });
        let service_did = parse::text(self.service_did).and_then(|text| {
            let did = Did::try_from(text.as_str()).ok();
            if did.is_none() {
                problems.add("SERVICE_DID", format!("{text:?} is not a DID (did:web:…, did:plc:…)"));
            }
            did
        });
        Server {
            host,
            port: PORT.read(self.port, problems),
            public_url,
            service_did,
            trusted_proxies: TrustedProxies::check(&parse::list(self.trusted_proxies), problems),
            data_dir: DATA_DIR.read(self.data_dir).into(),
        }
    }
}

impl Server {
    /// A warning for the operator when PUBLIC_URL is https and no proxy is trusted. There must be a proxy, because the
    /// server speaks no TLS.
    pub fn proxy_advice(&self) -> Option<&'static str> {
        let is_https = self.public_url.as_ref().is_some_and(|url| url.scheme() == "https");
        (is_https && self.trusted_proxies.is_empty()).then_some(
            "PUBLIC_URL is https and TRUSTED_PROXIES is empty: all callers behind the proxy share the limits of one \
             address; set TRUSTED_PROXIES to the proxy's address",
        )
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    /// The instance's names. `port` is the actual port of the listener, which differs from `PORT` when that is 0.
    ///
    /// # Panics
    /// Never: a `did:web` made of a URL's host is a DID.
    pub fn identity(&self, port: u16) -> Identity {
        let url = self.public_url.clone().unwrap_or_else(|| {
            let default = format!("http://127.0.0.1:{port}");
            Url::parse(&default).expect("an address with a port is a URL")
        });
        let did = self.service_did.clone().unwrap_or_else(|| did_web(&url));
        Identity { origin: url.origin().ascii_serialization(), did, is_loopback: is_loopback(&url) }
    }
}

/// `did:web:host`, with a port as `%3Aport`.
fn did_web(url: &Url) -> Did {
    let host = url.host_str().unwrap_or("localhost");
    // A DID can't contain the brackets of an IPv6 address: they are percent-encoded, as are its colons and the port's.
    let host = host.replace('[', "%5B").replace(']', "%5D").replace(':', "%3A");
    let port = url.port().map_or_else(String::new, |port| format!("%3A{port}"));
    Did::try_from(format!("did:web:{host}{port}").as_str()).expect("a percent-encoded host makes a valid DID")
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(public_url: Option<&str>) -> Result<Server, Problems> {
        let mut problems = Problems::default();
        let args = ServerArgs { public_url: public_url.map(str::to_owned), ..ServerArgs::default() };
        let server = args.check(&mut problems);
        problems.into_result(server)
    }

    #[test]
    fn the_did_follows_the_public_url() {
        for (url, did, loopback) in [
            (None, "did:web:127.0.0.1%3A4000", true),
            (Some("https://index.example"), "did:web:index.example", false),
            (Some("https://index.example:8443"), "did:web:index.example%3A8443", false),
            (Some("http://localhost:3000/"), "did:web:localhost%3A3000", true),
            (Some("http://[::1]:3000"), "did:web:%5B%3A%3A1%5D%3A3000", true),
        ] {
            let identity = server(url).unwrap().identity(4000);
            assert_eq!(identity.did.as_str(), did);
            assert_eq!(identity.is_loopback, loopback, "{did}");
        }
        assert_eq!(
            server(Some("https://Index.Example/")).unwrap().identity(1).origin,
            "https://index.example"
        );
    }

    #[test]
    fn an_https_url_without_trusted_proxies_causes_a_warning() {
        let advice = |public_url: &str, proxies: Option<&str>| {
            let args = ServerArgs {
                public_url: Some(public_url.to_owned()),
                trusted_proxies: proxies.map(str::to_owned),
                ..ServerArgs::default()
            };
            args.check(&mut Problems::default()).proxy_advice()
        };
        assert!(advice("https://a.test", None).is_some());
        assert!(advice("https://a.test", Some("10.0.0.1")).is_none());
        assert!(advice("http://127.0.0.1:3000", None).is_none());
    }

    #[test]
    fn a_public_url_is_an_origin() {
        for bad in
            ["https://a.test/base", "https://a.test/?x", "https://u:p@a.test", "a.test", "ftp://a.test"]
        {
            assert!(server(Some(bad)).is_err(), "{bad}");
        }
    }
}
