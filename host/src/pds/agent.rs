//! The calls of one session. Each has a place among the calls to PDSs ([`PdsPlaces`]) and one deadline, which covers the
//! wait for the place, the renewal of tokens, and every repeat.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::json;
use serde_json::value::RawValue;

use super::answer::{self, Committed, PdsError, Refusal};
use super::{Action, PdsPlaces, Session, Write};
use crate::atproto::scope::{Need, RepoAction};
use crate::fair_share::Tenant;
use crate::net::{Client, Limits, NetError, Outgoing};
use crate::oauth::Parcel;

/// A PDS writes to its own disk; one that takes longer has a problem.
const WRITE_LIMITS: Limits = Limits { max_bytes: Limits::DOCUMENT_BYTES, total: Duration::from_secs(30) };

/// The longest a call may take in all. Without it a slow PDS could use up every request's own time: three for nonces, a
/// renewal, and three more.
const CALL_TIME: Duration = Duration::from_mins(1);

/// The same for a blob: uploading 50 MiB takes a while.
const UPLOAD_TIME: Duration = Duration::from_mins(2);

const UPLOAD_LIMITS: Limits = Limits { total: UPLOAD_TIME, ..WRITE_LIMITS };

/// What places and time a call takes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Call,
    Upload,
}

/// Calls a PDS in the name of a session's user.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    net: &'a Client,
    session: &'a Session,
    places: &'a PdsPlaces,
    /// Whose share the calls take.
    tenant: &'a Tenant,
    /// At most this long for each call.
    patience: Duration,
}

impl<'a> Agent<'a> {
    pub fn new(net: &'a Client, session: &'a Session, places: &'a PdsPlaces, tenant: &'a Tenant) -> Self {
        Self { net, session, places, tenant, patience: UPLOAD_TIME }
    }

    /// With less time than the calls would have.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Does one write by its own method: `createRecord`, `putRecord` or `deleteRecord`.
    ///
    /// # Errors
    /// When the PDS refuses or does not answer. After [`PdsError::Net`] and [`PdsError::Malformed`] it is not known
    /// whether the write was done.
    pub async fn write(&self, write: &Write) -> Result<Committed, PdsError> {
        self.write_and_show(write).await.map(|(committed, _)| committed)
    }

    /// As [`Self::write`], with the PDS's answer as it came.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn write_and_show(&self, write: &Write) -> Result<(Committed, Bytes), PdsError> {
        self.check_write(write)?;
        let (method, record) = match &write.action {
            Action::Create(record) => ("com.atproto.repo.createRecord", Some(record)),
            Action::Put(record) => ("com.atproto.repo.putRecord", Some(record)),
            Action::Delete => ("com.atproto.repo.deleteRecord", None),
        };
        let mut body = Object::new("repo", self.session.did.as_str());
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
        let committed = if record.is_some() { answer::one(&answer)? } else { answer::deleted(&answer)? };
        Ok((committed, answer))
    }

    /// Does all writes in one commit, or none (`applyWrites`).
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn apply_writes(&self, writes: &[Write]) -> Result<Committed, PdsError> {
        let mut list = Vec::with_capacity(writes.len());
        for write in writes {
            self.check_write(write)?;
            let (kind, record) = match &write.action {
                Action::Create(record) => ("create", Some(record)),
                Action::Put(record) => ("update", Some(record)),
                Action::Delete => ("delete", None),
            };
            let mut item = Object::new("$type", &format!("com.atproto.repo.applyWrites#{kind}"));
            item.text("collection", write.collection.as_str());
            if let Some(rkey) = &write.rkey {
                item.text("rkey", rkey.as_str());
            }
            if let Some(record) = record {
                item.raw("value", record)?;
            }
            list.push(item.finish());
        }
        let mut body = Object::new("repo", self.session.did.as_str());
        body.0.extend_from_slice(b",\"writes\":[");
        body.0.extend_from_slice(&list.join(&b","[..]));
        body.0.push(b']');
        let answer = self.procedure("com.atproto.repo.applyWrites", body.finish()).await?;
        answer::many(&answer, writes.len())
    }

    /// Uploads a blob; the PDS's answer as it came.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn upload_blob(&self, bytes: Bytes, mime_type: &str) -> Result<Bytes, PdsError> {
        let kind = HeaderValue::try_from(mime_type)
            .map_err(|_| PdsError::Malformed("the type of the blob is no header value".to_owned()))?;
        self.check_blob(&kind)?;
        let body = Some((kind, bytes));
        let call = self.call(Method::POST, "com.atproto.repo.uploadBlob", body, UPLOAD_LIMITS);
        self.in_time(Kind::Upload, call).await
    }

    /// Uploads a blob that is still on its way to us; the PDS's answer as it came.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn upload_stream(&self, body: Outgoing, mime_type: HeaderValue) -> Result<Bytes, PdsError> {
        self.check_blob(&mime_type)?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, mime_type)]);
        let url = self.url("com.atproto.repo.uploadBlob");
        let limits = UPLOAD_LIMITS;
        let parcel = Parcel { method: Method::POST, url: &url, headers, body: None, limits };
        let url = self.url("com.atproto.server.getSession");
        let limits = WRITE_LIMITS;
        let ahead = Parcel { method: Method::GET, url: &url, headers: HeaderMap::new(), body: None, limits };
        let call = async {
            answer::success(self.session.credential.send_once(self.net, &ahead, parcel, body).await?)
        };
        self.in_time(Kind::Upload, call).await
    }

    /// A query; its answer as it came.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn query(&self, method_and_params: &str) -> Result<Bytes, PdsError> {
        self.in_time(Kind::Call, self.call(Method::GET, method_and_params, None, WRITE_LIMITS)).await
    }

    /// A procedure, with JSON text as its input; its answer as it came.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn procedure(&self, method: &str, body: Vec<u8>) -> Result<Bytes, PdsError> {
        let json = HeaderValue::from_static("application/json");
        let call = self.call(Method::POST, method, Some((json, body.into())), WRITE_LIMITS);
        self.in_time(Kind::Call, call).await
    }

    /// Refuses a write that is beyond what the session may do. A put creates the record where there is none, unless it
    /// names the one to replace.
    fn check_write(&self, write: &Write) -> Result<(), PdsError> {
        let actions: &[RepoAction] = match (&write.action, &write.swap) {
            (Action::Create(_), _) => &[RepoAction::Create],
            (Action::Put(_), None) => &[RepoAction::Create, RepoAction::Update],
            (Action::Put(_), Some(_)) => &[RepoAction::Update],
            (Action::Delete, _) => &[RepoAction::Delete],
        };
        let collection = write.collection.as_str();
        for &action in actions {
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

    fn check(&self, need: &Need<'_>, scope: impl Fn() -> String) -> Result<(), PdsError> {
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
        let mut headers = HeaderMap::new();
        let body = body.map(|(kind, body)| {
            headers.insert(CONTENT_TYPE, kind);
            body
        });
        let url = self.url(method);
        let parcel = Parcel { method: verb, url: &url, headers, body, limits };
        answer::success(self.session.credential.send(self.net, parcel).await?)
    }

    fn url(&self, method: &str) -> String {
        format!("{}/xrpc/{method}", self.session.endpoint)
    }

    /// Makes a call with a place, within its time and the caller's patience. Tokens that are being renewed when the time
    /// is over are kept all the same ([`super::Vault`]).
    async fn in_time<T>(
        &self,
        kind: Kind,
        call: impl Future<Output = Result<T, PdsError>>,
    ) -> Result<T, PdsError> {
        let whole = async {
            let _place = match kind {
                Kind::Call => self.places.enter(self.tenant, &self.session.endpoint).await?,
                Kind::Upload => self.places.enter_upload(self.tenant, &self.session.did).await?,
            };
            call.await
        };
        let most = match kind {
            Kind::Call => CALL_TIME,
            Kind::Upload => UPLOAD_TIME,
        };
        let ended = tokio::time::timeout(most.min(self.patience), whole).await;
        ended.unwrap_or(Err(PdsError::Net(NetError::Timeout)))
    }
}

/// A JSON object under way, so that a record goes into it as the text it is.
struct Object(Vec<u8>);

impl Object {
    fn new(name: &str, value: &str) -> Self {
        Self(format!("{{\"{name}\":{}", json!(value)).into_bytes())
    }

    fn text(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(format!(",\"{name}\":{}", json!(value)).as_bytes());
    }

    /// A value that is JSON text already; what is not can't slip in.
    fn raw(&mut self, name: &str, value: &[u8]) -> Result<(), PdsError> {
        let checked: &RawValue = serde_json::from_slice(value)
            .map_err(|error| PdsError::Malformed(format!("the record is no JSON: {error}")))?;
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
    use crate::atproto::Did;
    use crate::config::Secret;
    use crate::net::tests::loopback;
    use crate::pds::Credential;

    /// Renewals and repeats are inside of what is timed, and so is the wait for a place.
    #[tokio::test(start_paused = true)]
    async fn a_call_has_one_deadline() {
        let (net, places, tenant) = (loopback(), PdsPlaces::default(), Tenant::Instance);
        let session = Session {
            did: Did::try_from("did:plc:alice").unwrap(),
            endpoint: "http://127.0.0.1:9".to_owned(),
            credential: Credential::Bearer(Secret::new("token".to_owned())),
            permits: None,
        };
        let agent = Agent::new(&net, &session, &places, &tenant);
        let short = Duration::from_secs(7);
        for (agent, kind, time) in [
            (agent, Kind::Call, CALL_TIME),
            (agent, Kind::Upload, UPLOAD_TIME),
            (agent.within(short), Kind::Call, short),
        ] {
            let started = Instant::now();
            let ended = agent.in_time(kind, pending::<Result<(), PdsError>>()).await;
            assert!(matches!(ended, Err(PdsError::Net(NetError::Timeout))), "{ended:?}");
            assert_eq!(started.elapsed(), time);
        }
    }
}
