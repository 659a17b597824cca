//! A labeler to test against: serves `com.atproto.label.subscribeLabels` from messages in memory, and misbehaves on
//! demand. The test signs, with any key.

use std::sync::{Arc, Mutex, PoisonError};

use shrike::cbor::{Value, encode_value};

use crate::jetstream::{FakeJetstream, Mode, Subscription, binary};

/// Makes the signature of bytes.
type Sign = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// A label to send. Its fields are sent as they are.
#[derive(Clone, Debug)]
pub struct Label<'a> {
    /// `None`: the labeler's DID.
    pub src: Option<&'a str>,
    pub uri: &'a str,
    pub val: &'a str,
    pub cts: &'a str,
    pub neg: Option<bool>,
    pub exp: Option<&'a str>,
    pub cid: Option<&'a str>,
    pub signature: Signature,
}

/// A fault of every label that the labeler sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelFault {
    /// The signature is one of other bytes.
    ForgesSignatures,
    /// `cts` is in the year 2999.
    DatesAhead,
    /// `exp` is the last moment that a datetime can name: the usual "never".
    ExpiresNever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    Valid,
    /// The signature is one of other bytes.
    Wrong,
    Absent,
}

impl<'a> Label<'a> {
    pub fn new(uri: &'a str, val: &'a str, cts: &'a str) -> Self {
        Self { src: None, uri, val, cts, neg: None, exp: None, cid: None, signature: Signature::Valid }
    }

    #[must_use]
    pub fn negated(self) -> Self {
        Self { neg: Some(true), ..self }
    }
}

/// The running labeler. Ends when dropped.
pub struct FakeLabeler {
    server: FakeJetstream,
    did: String,
    sign: Mutex<Sign>,
    fault: Mutex<Option<LabelFault>>,
    seq: Mutex<i64>,
}

impl std::fmt::Debug for FakeLabeler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeLabeler")
            .field("did", &self.did)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl FakeLabeler {
    /// Listens on a free loopback port.
    pub async fn start(did: &str, sign: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let server = FakeJetstream::start_at("/xrpc/com.atproto.label.subscribeLabels").await;
        let error = Value::Map(vec![("error", Value::Text("FutureCursor"))]);
        server.refuse_later_cursors(binary(frame(&Value::Map(vec![("op", Value::Signed(-1))]), &error)));
        let (sign, fault, seq) = (Mutex::new(Arc::new(sign) as Sign), Mutex::default(), Mutex::new(0));
        Self { server, did: did.to_owned(), sign, fault, seq }
    }

    /// The address for the DID document.
    pub fn url(&self) -> String {
        self.server.url().replacen("ws", "http", 1)
    }

    /// Signs with another key from now on.
    pub fn sign_with(&self, sign: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        *self.sign.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(sign);
    }

    /// Sets what is wrong with the labels that are sent from now on.
    pub fn set_fault(&self, fault: Option<LabelFault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Sends a message with labels. Returns its number.
    pub fn send(&self, labels: &[Label<'_>]) -> i64 {
        let encoded: Vec<Vec<u8>> = labels.iter().map(|label| self.encode(label)).collect();
        self.push(|seq| {
            // The labels are complete items, so they can follow the head of their array.
            let mut body = vec![0xa2];
            body.extend(encode(&Value::Text("seq")));
            body.extend(encode(&Value::Unsigned(seq as u64)));
            body.extend(encode(&Value::Text("labels")));
            body.extend(array_head(encoded.len()));
            body.extend(encoded.concat());
            [encode(&header("#labels")), body].concat()
        })
    }

    /// Sends an `#info` message.
    pub fn inform(&self, name: &str) {
        self.push(|_| frame(&header("#info"), &Value::Map(vec![("name", Value::Text(name))])));
    }

    /// Sends bytes as a message. Returns its number.
    pub fn push(&self, message: impl FnOnce(i64) -> Vec<u8>) -> i64 {
        let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
        *seq += 1;
        // A subscription has the messages after its cursor, one of the Jetstream those from its cursor on.
        self.server.push_raw(*seq - 1, None, binary(message(*seq)));
        *seq
    }

    /// Forgets all messages: the next one has the number 1 again.
    pub fn forget(&self) {
        *self.seq.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        self.server.forget();
    }

    pub fn set_mode(&self, mode: Mode) {
        self.server.set_mode(mode);
    }

    /// Drops every connection without a closing handshake.
    pub fn drop_clients(&self) {
        self.server.drop_clients();
    }

    /// The cursor of every subscription, oldest first.
    pub fn cursors(&self) -> Vec<Option<i64>> {
        self.server.subscriptions().into_iter().map(|Subscription { cursor, .. }| cursor).collect()
    }

    /// The number of TCP connections accepted so far.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    fn encode(&self, label: &Label<'_>) -> Vec<u8> {
        let mut label = label.clone();
        match *self.fault.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(LabelFault::ForgesSignatures) => label.signature = Signature::Wrong,
            Some(LabelFault::DatesAhead) => label.cts = "2999-01-01T00:00:00.000Z",
            Some(LabelFault::ExpiresNever) => label.exp = Some("9999-12-31T23:59:59.999Z"),
            None => {}
        }
        let mut fields = vec![
            ("ver", Value::Unsigned(1)),
            ("src", Value::Text(label.src.unwrap_or(&self.did))),
            ("uri", Value::Text(label.uri)),
            ("val", Value::Text(label.val)),
            ("cts", Value::Text(label.cts)),
        ];
        fields.extend(label.neg.map(|neg| ("neg", Value::Bool(neg))));
        fields.extend(label.exp.map(|exp| ("exp", Value::Text(exp))));
        fields.extend(label.cid.map(|cid| ("cid", Value::Text(cid))));
        let sign = self.sign.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let signature = match label.signature {
            Signature::Valid => Some(sign(&encode(&Value::Map(fields.clone())))),
            Signature::Wrong => Some(sign(b"other bytes")),
            Signature::Absent => None,
        };
        if let Some(signature) = &signature {
            fields.push(("sig", Value::Bytes(signature)));
        }
        encode(&Value::Map(fields))
    }
}

fn header(kind: &str) -> Value<'_> {
    Value::Map(vec![("op", Value::Unsigned(1)), ("t", Value::Text(kind))])
}

fn frame(header: &Value<'_>, body: &Value<'_>) -> Vec<u8> {
    [encode(header), encode(body)].concat()
}

fn encode(value: &Value<'_>) -> Vec<u8> {
    encode_value(value).expect("it can be encoded")
}

/// DAG-CBOR allows only the shortest form.
fn array_head(items: usize) -> Vec<u8> {
    match u16::try_from(items).expect("few labels") {
        few @ 0..24 => vec![0x80 | few as u8],
        some @ 24..256 => vec![0x98, some as u8],
        many => [&[0x99][..], &many.to_be_bytes()].concat(),
    }
}
