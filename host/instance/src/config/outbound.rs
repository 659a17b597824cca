//! Settings of outbound calls.

use std::net::{IpAddr, SocketAddr};

use clap::Args;

use super::{Problems, parse};

const DNS_PORT: u16 = 53;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Outbound calls")]
pub struct OutboundArgs {
    /// Hosts, comma-separated, that may be called although their addresses are private or loopback
    #[arg(long = "outbound-allow", env = "OUTBOUND_ALLOW", global = true, value_name = "HOSTS")]
    pub allow: Option<String>,
    /// DNS server, IP or IP:PORT [default: the system's]
    #[arg(long, env = "DNS_SERVER", global = true, value_name = "ADDRESS")]
    pub dns_server: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Outbound {
    /// Host names and addresses, lower case, no port.
    pub allow: Vec<String>,
    pub dns_server: Option<SocketAddr>,
}

impl OutboundArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Outbound {
        let allow: Vec<String> =
            parse::list(self.allow).into_iter().map(|host| host.to_ascii_lowercase()).collect();
        for host in &allow {
            if host.contains('/') || url::Host::parse(host).is_err() && host.parse::<IpAddr>().is_err() {
                problems.add("OUTBOUND_ALLOW", format!("{host:?} is not a host name or an IP address"));
            }
        }
        let dns_server = parse::text(self.dns_server).and_then(|text| {
            let address = text
                .parse::<SocketAddr>()
                .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT)))
                .ok();
            if address.is_none() {
                problems.add("DNS_SERVER", format!("{text:?} is not an IP address, with or without a port"));
            }
            address
        });
        Outbound { allow, dns_server }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hosts_and_a_dns_server() {
        let mut problems = Problems::default();
        let args = OutboundArgs {
            allow: Some("PDS.internal, 10.0.0.7".to_owned()),
            dns_server: Some("127.0.0.1:5353".to_owned()),
        };
        let outbound = args.check(&mut problems);
        assert_eq!(outbound.allow, ["pds.internal", "10.0.0.7"]);
        assert_eq!(outbound.dns_server.unwrap().port(), 5353);
        assert_eq!(problems, Problems::default());

        let args =
            OutboundArgs { allow: Some("http://x/".to_owned()), dns_server: Some("one.one".to_owned()) };
        args.check(&mut problems);
        assert_eq!(problems.iter().count(), 2);
    }
}
