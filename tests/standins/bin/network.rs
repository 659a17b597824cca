//! A network on loopback for the example apps (`examples/README.md`): a directory of DIDs, a relay, a PDS, a stream and a name
//! server. Reads one command a line, as JSON, and answers each with a line:
//!
//! | Command | Effect |
//! |---|---|
//! | `{"account": {"did", "handle"}}` | creates an account |
//! | `{"put": {"did", "collection", "rkey", "record", "time_us"}}` | creates or replaces a record, and sends it on the stream |
//! | `{"delete": {"did", "collection", "rkey", "time_us"}}` | deletes a record, and sends that |
//! | `{"sign": {"did", "claims"}}` | answers `{"token"}`, a service token that the account signed |
//!
//! Its first line has the addresses of the servers. It ends with its input.
#![expect(clippy::print_stdout, reason = "its output is its answers")]

use anyhow::{Context, Result, bail};
use belvedere_standins::cars;
use belvedere_standins::dns::Dns;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place};
use belvedere_standins::repos::{RepoNetwork, document};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

struct Network {
    repos: RepoNetwork,
    stream: FakeJetstream,
    dns: Dns,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let network = Network {
        repos: RepoNetwork::start(1).await,
        stream: FakeJetstream::start().await,
        dns: Dns::start().await,
    };
    let (repos, stream, dns) = (network.repos.url(), network.stream.url(), network.dns.address.to_string());
    println!("{}", json!({ "plc": repos, "relay": repos, "jetstream": stream, "dns": dns }));
    let (send, mut lines) = tokio::sync::mpsc::channel(100);
    // The thread waits for input without keeping the servers waiting.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let answer = network.run(&line).with_context(|| format!("command {line}"));
        println!("{}", answer.unwrap_or_else(|error| json!({ "error": format!("{error:#}") })));
    }
    Ok(())
}

impl Network {
    fn run(&self, line: &str) -> Result<Value> {
        let command: Value = serde_json::from_str(line)?;
        let (name, arguments) =
            command.as_object().and_then(|all| all.iter().next()).context("it is no object")?;
        let text = |field: &str| arguments[field].as_str().with_context(|| format!("{field} is missing"));
        let did = text("did")?;
        match name.as_str() {
            "account" => self.create_account(did, text("handle")?),
            "sign" => return Ok(json!({ "token": token(did, &arguments["claims"]) })),
            "put" | "delete" => {
                let time_us = arguments["time_us"].as_i64().context("time_us is missing")?;
                let (collection, rkey, record) = (text("collection")?, text("rkey")?, &arguments["record"]);
                let deletes = name == "delete";
                let rev = if deletes {
                    self.repos.delete(did, collection, rkey)
                } else {
                    self.repos.put(did, collection, rkey, record.clone())
                };
                let place = Place { did, collection, rkey, rev: &rev };
                let frame = if deletes {
                    Frame::delete(time_us, place)
                } else {
                    Frame::create(time_us, place, record)
                };
                self.stream.push(frame);
            }
            other => bail!("unknown command {other:?}"),
        }
        Ok(json!({}))
    }

    fn create_account(&self, did: &str, handle: &str) {
        self.repos.account(did, 0);
        let mut shown = document(did, &self.repos.pds_url(0));
        shown["alsoKnownAs"] = json!([format!("at://{handle}")]);
        self.repos.document(did, shown);
        self.dns.txt(&format!("_atproto.{handle}"), &format!("did={did}"));
    }
}

/// A JWT of these claims.
fn token(did: &str, claims: &Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ES256K" });
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(claims));
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&cars::sign(did, signed.as_bytes())))
}
