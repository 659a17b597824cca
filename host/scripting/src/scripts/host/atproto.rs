//! `atproto`: resolves accounts, reads and issues labels, transfers blobs, and signs and verifies records.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::state::RunState;
use super::{Refusal, arguments, blobs, fault, handles, issued_labels, json, repo, report};
use crate::scripts::bindings::belvedere::script::atproto::{Blob as WitBlob, Host};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use belvedere_instance::identity::DidDocument;
use belvedere_instance::labels::LabelRequest;
use belvedere_instance::xrpc::ServiceRef;
use belvedere_protocol::atproto::labels::{InvalidLabel, check_subject};
use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_protocol::atproto::{Cid, Did, Nsid};
use belvedere_wasm::sandbox::ResultMemory;
use belvedere_web::net::Limits;

/// The name in errors of the functions that upload a blob.
const UPLOAD: &str = "atproto.blob_upload";

impl Host for RunState {
    async fn resolve_service_endpoint(&mut self, did: String) -> Result<Option<String>, Refusal> {
        let function = "atproto.resolve_service_endpoint";
        let did = arguments::did(function, &did)?;
        let document = document(self, function, &did).await?;
        Ok(document.and_then(|document| document.pds().map(str::to_owned)))
    }

    async fn resolve_handle(&mut self, handle: String) -> Result<Option<String>, Refusal> {
        let did = handles::resolve(self, "atproto.resolve_handle", &handle).await?;
        Ok(did.map(|did| did.to_string()))
    }

    async fn handles(&mut self, dids: Vec<String>) -> Result<Vec<u8>, Refusal> {
        let function = "atproto.handles";
        let dids = arguments::dids(function, &dids, limits::HANDLE_DIDS)?;
        Ok(handles::of_accounts(self, function, &dids).await?)
    }

    async fn labels(&mut self, uris: Vec<String>) -> Result<Vec<u8>, Refusal> {
        let function = "atproto.get_labels";
        let labels = self.service(function, |services| services.labels.clone())?;
        let mut seen = HashSet::new();
        let subjects: Vec<String> = uris.into_iter().filter(|uri| seen.insert(uri.clone())).collect();
        if subjects.len() > limits::LABEL_SUBJECTS {
            let max = limits::LABEL_SUBJECTS;
            return Err(
                fault::new(FaultCode::Limit, format!("{function}: at most {max} URIs at once")).into()
            );
        }
        // Labels are public, so nothing in a space has any.
        let mut public = Vec::new();
        for uri in &subjects {
            match check_subject(uri) {
                Ok(()) => public.push(uri.clone()),
                Err(InvalidLabel::Space) => {}
                Err(invalid) => {
                    let text = format!("{function}: {uri:?}: {invalid}");
                    return Err(fault::new(FaultCode::BadInput, text).into());
                }
            }
        }
        let mut labels = labels.active(public).await.map_err(|e| fault::index(function, &e))?;
        self.count_rows(labels.values().map(Vec::len).sum(), 0)?;
        let answer: Map<String, Value> = subjects
            .into_iter()
            .map(|uri| {
                let list = labels.remove(&uri).unwrap_or_default().into_iter();
                let list =
                    list.map(|l| json!({ "src": l.src, "uri": uri, "val": l.val, "cts": l.cts })).collect();
                (uri, Value::Array(list))
            })
            .collect();
        Ok(Value::Object(answer).to_string().into_bytes())
    }

    async fn blob_download(&mut self, did: String, cid: String) -> Result<WitBlob, Refusal> {
        let memory = self.memory.keeping();
        let downloaded = download(self, &did, &cid, &memory).await;
        memory.check()?;
        Ok(downloaded?)
    }

    async fn blob_bytes(&mut self, handle: u32) -> Result<Vec<u8>, Refusal> {
        let function = "atproto.blob_download";
        let blob = self.blobs.get(handle).ok_or_else(|| no_blob(function, handle))?;
        if blob.bytes.len() > limits::HTTP_BODY_BYTES {
            return Err(fault::limit("the blob is too large to be read", limits::HTTP_BODY_BYTES).into());
        }
        self.count_call()?;
        self.count_rows(0, blob.bytes.len())?;
        Ok(blob.bytes.into())
    }

    async fn blob_upload_bytes(&mut self, bytes: Vec<u8>, mime_type: String) -> Result<Vec<u8>, Refusal> {
        upload(self, bytes.into(), &mime_type).await
    }

    async fn blob_upload(&mut self, handle: u32, mime_type: String) -> Result<Vec<u8>, Refusal> {
        let blob = self.blobs.get(handle).ok_or_else(|| no_blob(UPLOAD, handle))?;
        upload(self, blob.bytes, &mime_type).await
    }

    async fn sign(&mut self, record: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let function = "atproto.sign";
        let attestation = self.service(function, |services| services.attestation.clone())?;
        json::check(self, function, &record, MAX_RECORD_BYTES)?;
        // Without a caller the signature would be bound to no repo, and so be valid in all of them.
        let Some(caller) = &self.info.caller.did else {
            return Err(fault::forbidden(format!("{function} needs an authenticated caller")).into());
        };
        let record = as_saved(self, &record);
        let signature = attestation.sign(&record, caller.as_str());
        let bad = |error| fault::new(FaultCode::BadInput, format!("{function}: {error}"));
        Ok(signature.map_err(bad)?.to_string().into_bytes())
    }

    async fn issue_label(
        &mut self,
        uri: String,
        val: String,
        cid: String,
        expires: String,
        negate: bool,
    ) -> Result<bool, Refusal> {
        let exp = issued_labels::expiry(&expires, negate)?;
        let cid = Some(cid).filter(|cid| !cid.is_empty());
        let request = LabelRequest { uri, val, cid, neg: negate, exp };
        Ok(issued_labels::issue(self, &request).await?)
    }

    async fn verify_signature(
        &mut self,
        record: Vec<u8>,
        signature: Vec<u8>,
        repo_did: String,
    ) -> Result<bool, Refusal> {
        let function = "atproto.verify_signature";
        let attestation = self.service(function, |services| services.attestation.clone())?;
        json::check(self, function, &record, MAX_RECORD_BYTES)?;
        json::check(self, function, &signature, limits::SIGNATURE_BYTES)?;
        let signature = serde_json::from_slice(&signature).unwrap_or(Value::Null);
        let record = as_saved(self, &record);
        Ok(attestation.verify(&record, &signature, &repo_did))
    }

    async fn service_token(&mut self, audience: String, method: String) -> Result<String, Refusal> {
        let function = "atproto.service_token";
        let (identity, random, now) = self.service(function, |services| {
            let identity = services.identity.clone()?;
            Some((identity, services.random.clone(), services.clock.now()))
        })?;
        let bad = |what: &str| fault::new(FaultCode::BadInput, format!("{function}: {what}"));
        if !Did::is_valid(&audience) && ServiceRef::parse(&audience).is_none() {
            return Err(bad("audience is not a DID, with or without the fragment of a service").into());
        }
        let method = Nsid::try_from(method.as_str()).map_err(|_| bad("method is not an NSID"))?;
        let token = identity.sign_token(&audience, &method, &random, now);
        Ok(token.map_err(|error| fault::forbidden(format!("{function}: {error}")))?)
    }
}

fn no_blob(function: &str, handle: u32) -> Fault {
    fault::new(FaultCode::BadInput, format!("{function}: there is no blob {handle}"))
}

/// Uploads bytes to the caller's PDS. Returns the PDS's response.
async fn upload(state: &mut RunState, bytes: Bytes, mime_type: &str) -> Result<Vec<u8>, Refusal> {
    let repos = state.service(UPLOAD, |services| services.repos.clone())?;
    if let Some(dry_run) = state.dry_run() {
        return Err(report::refusal(dry_run, UPLOAD).into());
    }
    let session = state.session(UPLOAD)?;
    if http::HeaderValue::try_from(mime_type).is_err() {
        let message = format!("{UPLOAD}: {mime_type:?} is not a content type");
        return Err(fault::new(FaultCode::BadInput, message).into());
    }
    state.outbound.count(1)?;
    let tenant = state.tenant().clone();
    let agent = repos.agent(&session, &tenant).within(state.outbound.time_left()?);
    let started = Instant::now();
    let answer = agent.upload_blob(bytes, mime_type).await;
    state.outbound.charge(0, started.elapsed());
    match answer {
        Ok(body) if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok() => Ok(body.into()),
        Ok(_) => {
            let message = format!("{UPLOAD}: the PDS's answer is not JSON");
            Err(fault::new(FaultCode::Upstream, message).into())
        }
        Err(error) => Err(repo::pds_fault(state, UPLOAD, error).into()),
    }
}

/// The document of an account, `None` when there is none.
async fn document(
    state: &mut RunState,
    function: &str,
    did: &Did,
) -> Result<Option<Arc<DidDocument>>, Fault> {
    let resolver = state.service(function, |services| services.resolver.clone())?;
    match resolver.resolve(did).await {
        Ok(document) => Ok(Some(document)),
        Err(error) if error.is_temporary() => {
            Err(fault::new(FaultCode::Unavailable, format!("{function}: {did} can't be resolved: {error}")))
        }
        Err(_) => Ok(None),
    }
}

/// The blob takes `memory` while it arrives, and keeps it.
async fn download(
    state: &mut RunState,
    did: &str,
    cid: &str,
    memory: &ResultMemory,
) -> Result<WitBlob, Fault> {
    let function = "atproto.blob_download";
    let did = arguments::did(function, did)?;
    let cid: Cid = cid
        .parse()
        .map_err(|_| fault::new(FaultCode::BadInput, format!("{function}: {cid:?} is not a CID")))?;
    let web = state.service(function, |services| services.web.clone())?;
    let Some(document) = document(state, function, &did).await? else {
        return Err(fault::new(FaultCode::Upstream, format!("{function}: there is no {did}")));
    };
    let Some(pds) = document.pds() else {
        return Err(fault::new(FaultCode::Upstream, format!("{function}: {did} has no PDS")));
    };
    state.outbound.count(1)?;
    state.outbound.time_left()?;
    let started = Instant::now();
    let tenant = state.tenant().clone();
    let bytes_left = state.blobs.bytes_left(&web, &tenant).await;
    state.outbound.charge(0, started.elapsed());
    let (bytes_left, permit) = (bytes_left?, state.outbound_permit(&web).await?);
    let total = state.outbound.time_left()?.min(limits::HTTP_TIME);
    let max_bytes = bytes_left.min(limits::BLOB_BYTES);
    let client = web.client().in_memory(Arc::new(memory.clone()));
    let started = Instant::now();
    let fetched = blobs::fetch(&client, pds, &did, &cid, Limits { max_bytes, total }).await;
    drop(permit);
    state.outbound.charge(0, started.elapsed());
    memory.keep(fetched.as_ref().map_or(0, |blob| blob.bytes.len())).await;
    let blob = fetched.map_err(|mut fault| {
        fault.message = format!("{function}: {}", fault.message);
        fault
    })?;
    let (mime_type, size) = (blob.mime_type.clone(), blob.bytes.len() as u64);
    Ok(WitBlob { handle: state.blobs.keep(blob), mime_type, size })
}

/// The record as a repo holds it when it is saved: its signature must be over the same bytes.
fn as_saved(state: &RunState, record: &[u8]) -> Bytes {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "$type")]
        kind: String,
    }
    match serde_json::from_slice::<Typed>(record) {
        Ok(Typed { kind }) => repo::with_arrays(state, &kind, record.to_vec()),
        Err(_) => Bytes::copy_from_slice(record),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn record_uris_and_dids_can_carry_labels() {
        for good in ["did:plc:abc", "at://did:plc:abc/com.example.note/1", "at://did:plc:abc"] {
            assert_eq!(check_subject(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "at://",
            "alice.test",
            "at://alice.test/x",
            "https://x.test",
            "did:plc:a\0",
            "at://did:plc:a/ x",
        ] {
            assert_eq!(check_subject(bad), Err(InvalidLabel::Subject), "{bad}");
        }
    }
}
