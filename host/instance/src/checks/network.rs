//! Checks of the servers of the network.

use std::time::Instant;

use super::{Check, TIME_LIMIT};
use crate::config::{self, Config};
use belvedere_web::net;

/// Bytes of a response that are read; its content is ignored.
const ANSWER_BYTES: usize = 64 * 1024;

/// Whether the PLC directory, the relay and the Jetstream servers answer, all at once.
pub async fn network(config: &Config, net: &net::Client) -> Vec<Check> {
    let indexing = &config.indexing;
    let fixed = [
        ("plc", "PLC directory", "PLC_URL", &indexing.plc_url),
        ("relay", "relay", "RELAY_URL", &indexing.relay_url),
    ];
    let streams = indexing.jetstream_urls.iter().map(|url| ("jetstream", "Jetstream", "JETSTREAM_URL", url));
    let checks = fixed.into_iter().chain(streams).map(|(id, what, variable, url)| async move {
        Check::new(id, format!("{what} {}", config::public_url(url)), reach(net, variable, url).await)
    });
    futures_util::future::join_all(checks).await
}

/// Checks that the server of a URL answers a GET. These servers have no page there, so 404 is an answer as good as 200.
async fn reach(net: &net::Client, variable: &str, url: &str) -> Result<String, String> {
    let started = Instant::now();
    // A WebSocket handshake is an HTTP request, so ws is checked as http and wss as https.
    let url = url.strip_prefix("ws").map_or_else(|| url.to_owned(), |rest| format!("http{rest}"));
    let limits = net::Limits { max_bytes: ANSWER_BYTES, total: TIME_LIMIT };
    match net.get(&url, limits).await {
        Ok(answer) if answer.status.is_server_error() => {
            Err(format!("it fails with {}. Check that {variable} names a server that works", answer.status))
        }
        Ok(_) => Ok(format!("answers after {} ms", started.elapsed().as_millis())),
        Err(net::NetError::TooLarge(_) | net::NetError::Malformed(_)) => Ok("answers".to_owned()),
        Err(error) => Err(format!("{error}. Check {variable}, DNS and the firewall")),
    }
}
