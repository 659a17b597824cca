//! A user's account on the real PDS: writes records and blobs, changes the account, and gets service tokens.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::network::{Network, http};
use crate::wait::until;

/// Records by AT URI: their CID and value.
pub type Records = BTreeMap<String, (String, Value)>;

pub struct Account {
    network: &'static Network,
    pds: &'static str,
    pub did: String,
    pub handle: String,
    pub password: String,
    token: String,
}

impl Account {
    pub fn new(network: &'static Network, pds: &'static str, created: &Value) -> Self {
        let text = |name: &str| created[name].as_str().expect("an account has all fields").to_owned();
        Self {
            network,
            pds,
            did: text("did"),
            handle: text("handle"),
            password: text("password"),
            token: text("accessJwt"),
        }
    }

    /// Origin of the PDS.
    pub fn endpoint(&self) -> &str {
        self.pds
    }

    /// The access token of the session that was created with the account.
    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn uri(&self, collection: &str, rkey: &str) -> String {
        format!("at://{}/{collection}/{rkey}", self.did)
    }

    /// Creates or updates a record. Returns its CID.
    pub async fn put(&self, collection: &str, rkey: &str, record: Value) -> String {
        let body = json!({ "repo": self.did, "collection": collection, "rkey": rkey, "record": typed(collection, record) });
        let answer = self.post("com.atproto.repo.putRecord", Some(body)).await;
        answer["cid"].as_str().expect("the PDS gives the CID").to_owned()
    }

    /// Uploads a blob. Returns the blob object for a record.
    pub async fn upload_blob(&self, kind: &str, bytes: Vec<u8>) -> Value {
        let request = self.request(Method::POST, "com.atproto.repo.uploadBlob").header("content-type", kind);
        send(request.body(bytes), "uploadBlob").await["blob"].take()
    }

    pub async fn delete(&self, collection: &str, rkey: &str) {
        self.post(
            "com.atproto.repo.deleteRecord",
            Some(json!({ "repo": self.did, "collection": collection, "rkey": rkey })),
        )
        .await;
    }

    /// Applies several writes in one commit with `com.atproto.repo.applyWrites`.
    pub async fn apply_writes(&self, writes: Vec<Value>) {
        self.post("com.atproto.repo.applyWrites", Some(json!({ "repo": self.did, "writes": writes }))).await;
    }

    pub fn create_write(collection: &str, rkey: &str, record: Value) -> Value {
        Self::write("create", collection, rkey, Some(record))
    }

    pub fn update_write(collection: &str, rkey: &str, record: Value) -> Value {
        Self::write("update", collection, rkey, Some(record))
    }

    pub fn delete_write(collection: &str, rkey: &str) -> Value {
        Self::write("delete", collection, rkey, None)
    }

    fn write(action: &str, collection: &str, rkey: &str, record: Option<Value>) -> Value {
        let mut write = json!({
            "$type": format!("com.atproto.repo.applyWrites#{action}"), "collection": collection, "rkey": rkey,
        });
        if let Some(record) = record {
            write["value"] = typed(collection, record);
        }
        write
    }

    pub async fn change_handle(&mut self) {
        self.handle = format!("new-{}", self.handle);
        self.post("com.atproto.identity.updateHandle", Some(json!({ "handle": self.handle }))).await;
    }

    pub async fn deactivate(&self) {
        self.post("com.atproto.server.deactivateAccount", Some(json!({}))).await;
    }

    pub async fn activate(&self) {
        self.post("com.atproto.server.activateAccount", None).await;
    }

    /// Takes the account down as a moderator of the PDS, or reverses that.
    pub async fn take_down(&self, applied: bool) {
        let subject = json!({ "$type": "com.atproto.admin.defs#repoRef", "did": self.did });
        let body = json!({ "subject": subject, "takedown": { "applied": applied, "ref": "test" } });
        self.as_admin("com.atproto.admin.updateSubjectStatus", &body).await;
    }

    /// Asks until the PDS does it. It answered 500 once: it removes the repo's folder in one attempt, which a read of the
    /// repo that adds a file of SQLite's there would make fail.
    pub async fn delete_account(&self) {
        let (method, body) = ("com.atproto.admin.deleteAccount", json!({ "did": self.did }));
        until("the PDS deletes the account", || try_send(self.admin_request(method, &body), method)).await;
    }

    /// A service token for `audience`, signed by the PDS with the account's key, for one method or for all.
    pub async fn service_token(&self, audience: &str, method: Option<&str>) -> String {
        let mut request =
            self.request(Method::GET, "com.atproto.server.getServiceAuth").query(&[("aud", audience)]);
        if let Some(method) = method {
            request = request.query(&[("lxm", method)]);
        }
        let answer = send(request, "getServiceAuth").await;
        answer["token"].as_str().expect("the PDS gives a token").to_owned()
    }

    /// A call that the PDS forwards to the service that `proxy` names (`DID#fragment`), with a service token.
    pub fn proxied(&self, verb: Method, method: &str, proxy: &str) -> reqwest::RequestBuilder {
        self.request(verb, method).header("atproto-proxy", proxy)
    }

    /// All records in one collection of the repo.
    pub async fn records(&self, collection: &str) -> Records {
        let mut records = Records::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut request = self.request(Method::GET, "com.atproto.repo.listRecords").query(&[
                ("repo", self.did.as_str()),
                ("collection", collection),
                ("limit", "100"),
            ]);
            if let Some(cursor) = &cursor {
                request = request.query(&[("cursor", cursor)]);
            }
            let page = send(request, "listRecords").await;
            let rows = page["records"].as_array().expect("a list of records");
            for row in rows {
                let text = |name: &str| row[name].as_str().expect("uri and cid are texts").to_owned();
                records.insert(text("uri"), (text("cid"), row["value"].clone()));
            }
            cursor = page["cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || rows.is_empty() {
                return records;
            }
        }
    }

    async fn post(&self, method: &str, body: Option<Value>) -> Value {
        let mut request = self.request(Method::POST, method);
        if let Some(body) = body {
            request = request.json(&body);
        }
        send(request, method).await
    }

    async fn as_admin(&self, method: &str, body: &Value) -> Value {
        send(self.admin_request(method, body), method).await
    }

    fn admin_request(&self, method: &str, body: &Value) -> reqwest::RequestBuilder {
        http()
            .post(format!("{}/xrpc/{method}", self.pds))
            .basic_auth("admin", Some(&self.network.pds_admin_password))
            .json(body)
    }

    fn request(&self, verb: Method, method: &str) -> reqwest::RequestBuilder {
        http().request(verb, format!("{}/xrpc/{method}", self.pds)).bearer_auth(&self.token)
    }
}

fn typed(collection: &str, mut record: Value) -> Value {
    record["$type"] = json!(collection);
    record
}

async fn send(request: reqwest::RequestBuilder, what: &str) -> Value {
    try_send(request, what).await.unwrap_or_else(|refused| panic!("{refused}"))
}

async fn try_send(request: reqwest::RequestBuilder, what: &str) -> Result<Value, String> {
    let answer = request.send().await.expect("the PDS answers");
    let status = answer.status();
    let body = answer.text().await.expect("the PDS answers in full");
    if !status.is_success() {
        return Err(format!("{what}: {status} {body}"));
    }
    Ok(serde_json::from_str(&body).unwrap_or(Value::Null))
}
