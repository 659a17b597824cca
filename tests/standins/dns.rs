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

type Texts = Arc<Mutex<HashMap<String, String>>>;

/// The running server.
#[derive(Debug)]
pub struct Dns {
    pub address: SocketAddr,
    texts: Texts,
}

impl Dns {
    pub async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let texts = Texts::default();
        let known = Arc::clone(&texts);
        tokio::spawn(async move {
            let mut packet = [0; PACKET_BYTES];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                if let Some(reply) = reply(&packet[..length], &known) {
                    let _ = socket.send_to(&reply, from).await;
                }
            }
        });
        Self { address, texts }
    }

    /// Sets the TXT record of a name, which is given without a final dot.
    pub fn txt(&self, name: &str, text: &str) {
        self.texts.lock().expect("no test panics here").insert(format!("{name}."), text.to_owned());
    }
}

fn reply(packet: &[u8], known: &Texts) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(packet).ok()?;
    let query = message.queries.first()?.clone();
    let name = query.name().to_ascii().to_ascii_lowercase();
    let text = known.lock().expect("no test panics here").get(&name).cloned();
    let text = text.filter(|_| query.query_type() == RecordType::TXT);
    message.metadata.message_type = MessageType::Response;
    message.metadata.response_code =
        if text.is_some() { ResponseCode::NoError } else { ResponseCode::NXDomain };
    if let Some(text) = text {
        message.add_answer(Record::from_rdata(query.name().clone(), 60, RData::TXT(TXT::new(vec![text]))));
    }
    message.to_vec().ok()
}
