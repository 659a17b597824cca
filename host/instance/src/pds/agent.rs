//! Makes calls to a PDS with one session. Each takes a permit in [`PdsPools`] and has one deadline, which covers the
//! wait for the permit, the renewal of tokens, and all repeats.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::{self, CommitResult, PdsError, Refusal};
use super::{PdsPools, Session, Write, WriteAction};
use crate::oauth::DpopRequest;
use belvedere_protocol::atproto::scope::Need;
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{Client, FetchedResponse, Limits, NetError, OutboundBody};

/// Limits of one request. A healthy PDS answers a write much faster.
pub(super) const WRITE_LIMITS: Limits =
    Limits { max_bytes: Limits::DOCUMENT_BYTES, total: Duration::from_secs(30) };

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Deadline of a whole call. A call may take seven requests, each with its own time limit: three because of nonces, a
/// token renewal, and three more.
const CALL_TIME: Duration = Duration::from_mins(1);

/// Deadline of an upload, of up to 50 MiB.
const UPLOAD_TIME: Duration = Duration::from_mins(2);

const UPLOAD_LIMITS: Limits = Limits { total: UPLOAD_TIME, ..WRITE_LIMITS };

/// Selects the pool and the deadline of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallKind {
    Call,
    Upload,
}

/// Calls a PDS with a user's session.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    net: &'a Client,
    session: &'a Session,
    permits: &'a PdsPools,
    /// The tenant whose share the calls take.
    tenant: &'a Tenant,
    /// Upper bound of each call's deadline.
    max_wait: Duration,
}

impl<'a> Agent<'a> {
    pub fn new(net: &'a Client, session: &'a Session, permits: &'a PdsPools, tenant: &'a Tenant) -> Self {
        Self { net, session, permits, tenant, max_wait: UPLOAD_TIME }
    }

    /// The same agent, with calls that take at most `max_wait`.
    #[must_use]
    pub fn within(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }

    /// Makes one write with its method: `createRecord`, `putRecord` or `deleteRecord`.
    ///
    /// # Errors
    /// When the PDS refuses or does not answer. After [`PdsError::Net`] and [`PdsError::Malformed`] the write may or
    /// may not have been made.
    pub async fn write(&self, write: &Write) -> Result<CommitResult, PdsError> {
        self.write_with_response(write).await.map(|(committed, _)| committed)
    }

    /// Like [`Self::write`]; also returns the body of the PDS's response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn write_with_response(&self, write: &Write) -> Result<(CommitResult, Bytes), PdsError> {
        self.check_write(write, false)?;
        let (method, record) = match &write.action {
            WriteAction::Create(record) => ("com.atproto.repo.createRecord", Some(record)),
            WriteAction::Put(record) => ("com.atproto.repo.putRecord", Some(record)),
            WriteAction::Delete => ("com.atproto.repo.deleteRecord", None),
        };
        let mut body = JsonObject::new("repo", self.session.did.as_str());
        body.text("collection", write.collection.as_str());
        if let Some(rkey) = &write.rkey {
            body.text("rkey", rkey.as_str());
        }
        if let Some(record) = record {
            body.raw("record", record)?;
        }
        if let Some(swap) = &write.swap {
            body.text("swapRecord", swap);
        }
        let answer = self.procedure(method, body.finish()).await?;
        let committed = if record.is_some() { answer::written(&answer)? } else { answer::deleted(&answer)? };
        Ok((committed, answer))
    }

    /// Makes all writes in one commit, or none (`applyWrites`).
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn apply_writes(&self, writes: &[Write]) -> Result<CommitResult, PdsError> {
        let mut list = Vec::with_capacity(writes.len());
        for write in writes {
            self.check_write(write, true)?;
            let (kind, record) = match &write.action {
                WriteAction::Create(record) => ("create", Some(record)),
                WriteAction::Put(record) => ("update", Some(record)),
                WriteAction::Delete => ("delete", None),
            };
            let mut item = JsonObject::new("$type", &format!("com.atproto.repo.applyWrites#{kind}"));
            item.text("collection", write.collection.as_str());
            if let Some(rkey) = &write.rkey {
                item.text("rkey", rkey.as_str());
            }
            if let Some(record) = record {
                item.raw("value", record)?;
            }
            list.push(item.finish());
        }
        let mut body = JsonObject::new("repo", self.session.did.as_str());
        body.0.extend_from_slice(b",\"writes\":[");
        body.0.extend_from_slice(&list.join(&b","[..]));
        body.0.push(b']');
        let answer = self.procedure("com.atproto.repo.applyWrites", body.finish()).await?;
        answer::applied(&answer, writes.len())
    }

    /// Uploads a blob. Returns the body of the PDS's response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn upload_blob(&self, bytes: Bytes, mime_type: &str) -> Result<Bytes, PdsError> {
        let kind = HeaderValue::try_from(mime_type)
            .map_err(|_| PdsError::Malformed("the MIME type of the blob is not a header value".to_owned()))?;
        self.check_blob(&kind)?;
        let body = Some((kind, bytes));
        let call = self.call(Method::POST, "com.atproto.repo.uploadBlob", body, UPLOAD_LIMITS);
        self.with_deadline(CallKind::Upload, call).await
    }

    /// Uploads a blob as a stream. Returns the body of the PDS's response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn upload_stream(&self, body: OutboundBody, mime_type: HeaderValue) -> Result<Bytes, PdsError> {
        self.check_blob(&mime_type)?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, mime_type)]);
        let url = self.url("com.atproto.repo.uploadBlob");
        let limits = UPLOAD_LIMITS;
        let request = DpopRequest { method: Method::POST, url: &url, headers, body: None, limits };
        let url = self.url("com.atproto.server.getSession");
        let limits = WRITE_LIMITS;
        let probe =
            DpopRequest { method: Method::GET, url: &url, headers: HeaderMap::new(), body: None, limits };
        let call = async {
            answer::success(self.session.credential.send_stream(self.net, &probe, request, body).await?)
        };
        self.with_deadline(CallKind::Upload, call).await
    }

    /// Calls a query. Returns the body of the response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn query(&self, method_and_params: &str) -> Result<Bytes, PdsError> {
        self.with_deadline(CallKind::Call, self.call(Method::GET, method_and_params, None, WRITE_LIMITS))
            .await
    }

    /// Calls a procedure with JSON text as input. Returns the body of the response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn procedure(&self, method: &str, body: Vec<u8>) -> Result<Bytes, PdsError> {
        let call = self.call(Method::POST, method, Some((JSON, body.into())), WRITE_LIMITS);
        self.with_deadline(CallKind::Call, call).await
    }

    /// Whether the session's scopes are recorded, so that calls are checked here too.
    pub(super) fn has_scopes(&self) -> bool {
        self.session.permits.is_some()
    }

    /// Refuses a write that the session's scopes don't allow.
    pub(super) fn check_write(&self, write: &Write, is_batch: bool) -> Result<(), PdsError> {
        let collection = write.collection.as_str();
        for &action in write.actions(is_batch) {
            let scope = || format!("repo:{collection}?action={}", action.as_str());
            self.check(&Need::Repo { collection: Some(collection), action }, scope)?;
        }
        Ok(())
    }

    fn check_blob(&self, mime_type: &HeaderValue) -> Result<(), PdsError> {
        let kind = mime_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        let kind = kind.trim().to_ascii_lowercase();
        self.check(&Need::Blob { kind: &kind }, || format!("blob:{kind}"))
    }

    pub(super) fn check(&self, need: &Need<'_>, scope: impl Fn() -> String) -> Result<(), PdsError> {
        match &self.session.permits {
            Some(permits) if !permits.allow(need) => Err(PdsError::Refused(Refusal::missing_scope(&scope()))),
            _ => Ok(()),
        }
    }

    async fn call(
        &self,
        verb: Method,
        method: &str,
        body: Option<(HeaderValue, Bytes)>,
        limits: Limits,
    ) -> Result<Bytes, PdsError> {
        answer::success(self.request(verb, method, HeaderMap::new(), body, limits).await?)
    }

    /// Sends one request. Returns the response whatever its status.
    pub(super) async fn request(
        &self,
        verb: Method,
        method: &str,
        mut headers: HeaderMap,
        body: Option<(HeaderValue, Bytes)>,
        limits: Limits,
    ) -> Result<FetchedResponse, PdsError> {
        let body = body.map(|(kind, body)| {
            headers.insert(CONTENT_TYPE, kind);
            body
        });
        let url = self.url(method);
        let request = DpopRequest { method: verb, url: &url, headers, body, limits };
        self.session.credential.send(self.net, request).await
    }

    fn url(&self, method: &str) -> String {
        format!("{}/xrpc/{method}", self.session.endpoint)
    }

    /// Waits for a permit and makes a call, both within its deadline. A token renewal that is in progress at the
    /// deadline still completes and is stored ([`super::Vault`]).
    pub(super) async fn with_deadline<T>(
        &self,
        kind: CallKind,
        call: impl Future<Output = Result<T, PdsError>>,
    ) -> Result<T, PdsError> {
        let placed_call = async {
            let _permit = match kind {
                CallKind::Call => self.permits.enter(self.tenant, &self.session.endpoint).await?,
                CallKind::Upload => self.permits.enter_upload(self.tenant, &self.session.did).await?,
            };
            call.await
        };
        let deadline = match kind {
            CallKind::Call => CALL_TIME,
            CallKind::Upload => UPLOAD_TIME,
        };
        let ended = tokio::time::timeout(deadline.min(self.max_wait), placed_call).await;
        ended.unwrap_or(Err(PdsError::Net(NetError::Timeout)))
    }
}

/// Builds the text of a JSON object, into which records are inserted as text.
struct JsonObject(Vec<u8>);

impl JsonObject {
    fn new(name: &str, value: &str) -> Self {
        Self(format!("{{\"{name}\":{}", json!(value)).into_bytes())
    }

    fn text(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(format!(",\"{name}\":{}", json!(value)).as_bytes());
    }

    /// Adds a value that is JSON text already.
    ///
    /// # Errors
    /// When it is not JSON.
    fn raw(&mut self, name: &str, value: &[u8]) -> Result<(), PdsError> {
        let checked: &RawValue = serde_json::from_slice(value)
            .map_err(|error| PdsError::Malformed(format!("the record is not JSON: {error}")))?;
        self.0.extend_from_slice(format!(",\"{name}\":{checked}").as_bytes());
        Ok(())
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;
    use crate::config::Secret;
    use crate::pds::Credential;
    use belvedere_protocol::atproto::Did;
    use belvedere_web::net::testing::loopback;

    /// The deadline covers renewals, repeats and the wait for a permit.
    #[tokio::test(start_paused = true)]
    async fn a_call_has_one_deadline() {
        let (net, permits, tenant) = (loopback(), PdsPools::default(), Tenant::Instance);
        let session = Session {
            did: Did::try_from("did:plc:alice").unwrap(),
            endpoint: "http://127.0.0.1:9".to_owned(),
            credential: Credential::Bearer(Secret::new("token".to_owned())),
            permits: None,
        };
        let agent = Agent::new(&net, &session, &permits, &tenant);
        let short = Duration::from_secs(7);
        for (agent, kind, time) in [
            (agent, CallKind::Call, CALL_TIME),
            (agent, CallKind::Upload, UPLOAD_TIME),
            (agent.within(short), CallKind::Call, short),
        ] {
            let started = Instant::now();
            let ended = agent.with_deadline(kind, pending::<Result<(), PdsError>>()).await;
            assert!(matches!(ended, Err(PdsError::Net(NetError::Timeout))), "{ended:?}");
            assert_eq!(started.elapsed(), time);
        }
    }
}
