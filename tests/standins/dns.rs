//! A name server that serves the TXT records that a test sets, and NXDOMAIN for all other names.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::TXT;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::net::UdpSocket;

/// The largest query over UDP.
const PACKET_BYTES: usize = 1500;

/// Seconds that an answer may be cached: a change by a test applies at once.
const TTL: u32 = 0;

/// Names and their TXT records, each of one or more strings.
type Texts = Arc<Mutex<HashMap<String, Vec<Vec<String>>>>>;

/// Names whose TXT records were asked for, in order.
type Queries = Arc<Mutex<Vec<String>>>;

/// The running server.
#[derive(Debug)]
pub struct Dns {
    pub address: SocketAddr,
    texts: Texts,
    queries: Queries,
}

impl Dns {
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let texts = Texts::default();
        let queries = Queries::default();
        let (known, asked) = (Arc::clone(&texts), Arc::clone(&queries));
        tokio::spawn(async move {
            let mut packet = [0; PACKET_BYTES];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                if let Some(reply) = reply(&packet[..length], &known, &asked) {
                    let _ = socket.send_to(&reply, from).await;
                }
            }
        });
        Self { address, texts, queries }
    }

    /// The number of queries for TXT records of a name, or of one below it. The name has no final dot.
    pub fn queries(&self, name: &str) -> usize {
        let is_below = |asked: &&String| {
            asked
                .strip_suffix('.')
                .and_then(|asked| asked.strip_suffix(name))
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.queries.lock().expect("no test panics here").iter().filter(is_below).count()
    }

    /// Sets the only TXT record of a name, which is given without a final dot.
    pub fn txt(&self, name: &str, text: &str) {
        self.records(name, &[&[text]]);
    }

    /// Sets all TXT records of a name, each as the strings that it consists of. None: the name does not exist.
    pub fn records(&self, name: &str, records: &[&[&str]]) {
        let owned = |strings: &&[&str]| strings.iter().map(|&string| string.to_owned()).collect();
        let records = records.iter().map(owned).collect();
        self.texts.lock().expect("no test panics here").insert(format!("{name}."), records);
    }
}

fn reply(packet: &[u8], known: &Texts, queries: &Queries) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(packet).ok()?;
    let query = message.queries.first()?.clone();
    let name = query.name().to_ascii().to_ascii_lowercase();
    let records = known.lock().expect("no test panics here").get(&name).cloned().unwrap_or_default();
    if query.query_type() == RecordType::TXT {
        queries.lock().expect("no test panics here").push(name.clone());
    }
    let records = if query.query_type() == RecordType::TXT { records } else { Vec::new() };
    message.metadata.message_type = MessageType::Response;
    message.metadata.response_code =
        if records.is_empty() { ResponseCode::NXDomain } else { ResponseCode::NoError };
    for strings in records {
        message.add_answer(Record::from_rdata(query.name().clone(), TTL, RData::TXT(TXT::new(strings))));
    }
    message.to_vec().ok()
}
