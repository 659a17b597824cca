//! `belvedere tail`: prints the messages of a subscription, one JSON object a line, until it is interrupted.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;
use url::Url;

use belvedere_base::backoff::Backoff;
use belvedere_base::random::Random;
use belvedere_instance::config::Config;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_web::websocket::{ChunkLimits, Connect as _, Connection, Direct, KeepAlive};

use super::{print_error, print_line};

/// Messages are records of up to a mebibyte.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

const KEEP_ALIVE: KeepAlive =
    KeepAlive { ping_after: Duration::from_secs(30), silence: Duration::from_mins(1) };

const CHUNK: ChunkLimits = ChunkLimits { frames: 256, bytes: 1 << 20 };

/// Attempts in a row that may fail: a server restarts within them.
const MAX_FAILURES: u32 = 10;

#[derive(Args, Debug)]
pub(super) struct Command {
    /// The subscription
    nsid: String,
    /// The server's address [default: the one that this configuration sets]
    #[arg(id = "server", long = "url", env = "BELVEDERE_URL", value_name = "URL")]
    url: Option<String>,
    /// The key of an API client of the server
    #[arg(long, env = "BELVEDERE_CLIENT_KEY", value_name = "KEY")]
    client_key: Option<String>,
    /// Begin after the message with this seq; 0: with the oldest that is kept [default: only new messages]
    #[arg(long, value_name = "SEQ")]
    cursor: Option<i64>,
    /// A parameter of the subscription; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let base = match &command.url {
        Some(url) => url.clone(),
        None => config.server.identity(config.server.port).origin,
    };
    let url = address(&command, &base)?;
    let direct = Direct { max_message_bytes: MAX_MESSAGE_BYTES, protocol: Some(Subprotocol::V1Json.token()) };
    let (random, mut backoff) =
        (Random::system(), Backoff::new(Duration::from_millis(250), Duration::from_secs(30)));
    let (mut cursor, mut failures) = (command.cursor, 0);
    loop {
        let mut url = url.clone();
        if let Some(cursor) = cursor {
            url.query_pairs_mut().append_pair("cursor", &cursor.to_string());
        }
        match direct.connect(&url).await {
            Ok(socket) => {
                (failures, backoff) = (0, Backoff::new(Duration::from_millis(250), Duration::from_secs(30)));
                follow(Connection::new(socket, KEEP_ALIVE, CHUNK), &mut cursor).await?;
            }
            Err(error) => {
                failures += 1;
                if failures == MAX_FAILURES || cursor == command.cursor && failures == 1 {
                    return Err(anyhow::Error::from(error))
                        .context(format!("{base} does not accept the subscription"));
                }
            }
        }
        tokio::time::sleep(backoff.next(&random)).await;
    }
}

fn address(command: &Command, base: &str) -> anyhow::Result<Url> {
    let nsid =
        Nsid::try_from(command.nsid.as_str()).context("the name of the subscription is not an NSID")?;
    let mut url =
        Url::parse(base).with_context(|| format!("{base} is not the address of a server (https://…)"))?;
    let scheme = match url.scheme() {
        "http" => "ws",
        "https" => "wss",
        _ => bail!("{base} is not the address of a server (https://…)"),
    };
    // Both are special schemes, so the change is allowed.
    let _ = url.set_scheme(scheme);
    url.set_path(&format!("/xrpc/{nsid}"));
    for param in &command.params {
        let (name, value) =
            param.split_once('=').with_context(|| format!("--param {param} is not NAME=VALUE"))?;
        url.query_pairs_mut().append_pair(name, value);
    }
    if let Some(key) = &command.client_key {
        url.query_pairs_mut().append_pair("client_key", key);
    }
    Ok(url)
}

/// Prints messages until the connection ends.
///
/// # Errors
/// The error that the server sends.
async fn follow<Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut connection: Connection<Io>,
    cursor: &mut Option<i64>,
) -> anyhow::Result<()> {
    loop {
        let mut frames = Vec::new();
        if let Err(lost) = connection.read_chunk(&mut frames, |_| None).await {
            print_error(&format_args!("{lost}; connecting again"));
            return Ok(());
        }
        for frame in frames {
            let frame: Value = serde_json::from_slice(&frame).context("a message is not JSON")?;
            if frame["$type"] == "error" {
                let text = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
                bail!("{}: {}", text("error"), text("message"));
            }
            let payload = &frame["payload"];
            *cursor = payload["seq"].as_i64().or(*cursor);
            print_line(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_has_the_parameters_and_the_key() {
        let command = Command {
            nsid: "com.example.watch".to_owned(),
            url: None,
            client_key: Some("bvc_1".to_owned()),
            cursor: None,
            params: vec!["did=did:plc:a".to_owned()],
        };
        let url = address(&command, "https://api.example").unwrap();
        assert_eq!(
            url.as_str(),
            "wss://api.example/xrpc/com.example.watch?did=did%3Aplc%3Aa&client_key=bvc_1"
        );
        assert!(address(&command, "ftp://api.example").is_err());
        assert!(
            address(&Command { params: vec!["x".to_owned()], ..command }, "https://api.example").is_err()
        );
    }
}
