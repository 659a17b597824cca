//! `/xrpc/com.atproto.simplespace.*`, `/xrpc/com.atproto.space.*`: permissioned spaces, as their users see them.

mod admin;
mod credentials;
mod elsewhere;
mod exports;
mod hostile;
mod hostile_hosts;
mod hosts;
mod identity;
mod inspections;
mod invites;
mod managing_app;
mod notifications;
mod records;
mod scopes;
mod scripts;
mod settings;
mod shares;
mod weaknesses;

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, World};
use crate::support::instance::{Answer, Instance};
use crate::support::plc::Person;

pub const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";
pub const KIND: &str = "com.example.group";

/// A server with spaces, and three users of it.
pub struct Group {
    pub world: World,
    pub alice: Person,
    pub bob: Person,
    pub carol: Person,
}

impl Group {
    /// Switches spaces on.
    pub async fn of(world: World) -> Self {
        switch_on(&world.server).await;
        let person = |did| world.plc.person(did, Algorithm::Es256k);
        let (alice, bob, carol) = (person(ALICE), person(BOB), person(CAROL));
        Self { world, alice, bob, carol }
    }

    /// With an identity that signs for the instance.
    pub async fn exposed(world: World) -> Self {
        let group = Self::of(world).await;
        expose(&group.world.server).await;
        group
    }

    /// A procedure of the protocol, named without `com.atproto.`.
    pub async fn post(&self, person: &Person, method: &str, body: Value) -> Answer {
        self.call(Some(person), Method::POST, &format!("com.atproto.{method}"), Some(body)).await
    }

    /// A query of the protocol, with its parameters.
    pub async fn get(&self, person: &Person, method: &str) -> Answer {
        self.call(Some(person), Method::GET, &format!("com.atproto.{method}"), None).await
    }

    pub async fn anonymous(&self, method: &str) -> Answer {
        self.call(None, Method::GET, &format!("com.atproto.{method}"), None).await
    }

    pub async fn call(
        &self,
        person: Option<&Person>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        call_at(&self.world.server, person, method, path, body).await
    }

    /// Creates a space of Alice's. Returns its address.
    pub async fn space(&self, skey: &str, more: Value) -> String {
        let mut body = json!({ "spaceType": KIND, "skey": skey });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let created = self.post(&self.alice, "simplespace.createSpace", body).await;
        assert_eq!(created.status, 200, "{}", created.text);
        created.body["uri"].as_str().unwrap().to_owned()
    }

    pub async fn join(&self, space: &str, did: &str, read: bool, write: bool) {
        let body = json!({ "space": space, "did": did, "read": read, "write": write });
        let put = self.post(&self.alice, "simplespace.putMember", body).await;
        assert_eq!(put.status, 200, "{}", put.text);
    }

    /// A call of an operator about a space: `path` follows that of the space.
    pub async fn admin(&self, method: Method, space: &str, path: &str, body: Option<&Value>) -> Answer {
        let path = format!("{}{path}", admin_path(space));
        self.world.server.admin(method, &path, body).await
    }

    /// Creates a note of a person.
    pub async fn note(&self, person: &Person, space: &str, rkey: &str) -> Answer {
        let record = json!({ "text": rkey });
        let body =
            json!({ "space": space, "collection": "com.example.note", "rkey": rkey, "record": record });
        self.post(person, "space.createRecord", body).await
    }
}

/// Switches spaces on.
pub async fn switch_on(server: &Instance) {
    let flag = json!({ "value": "true" });
    let on = server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&flag)).await;
    assert_eq!(on.status, 204, "{}", on.text);
}

/// Gives a server an identity that signs for it.
pub async fn expose(server: &Instance) {
    let identity = json!({ "mode": "did_web" });
    let put = server.admin(Method::PUT, "/admin/service-identity", Some(&identity)).await;
    assert_eq!(put.status, 204, "{}", put.text);
}

/// A call of a person, with a service token.
pub async fn call_at(
    server: &Instance,
    person: Option<&Person>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let bearer = person.map(|person| format!("Bearer {}", person.token(&server.did(), json!({}))));
    let mut headers = vec![("x-client-key", server.client_key.as_str())];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    server.request(method, &format!("/xrpc/{path}"), &headers, body.map(|body| body.to_string())).await
}

/// The address of a space of an instance whose DID has a port, as a parameter.
pub fn in_query(space: &str) -> String {
    space.replace('%', "%25")
}

/// The path of a space in the admin API.
pub fn admin_path(space: &str) -> String {
    let parts: Vec<&str> = space.trim_start_matches("at://").split('/').collect();
    format!("/admin/spaces/{}/{}/{}", parts[0].replace('%', "%25"), parts[2], parts[3])
}

/// Status and name of an error.
pub fn error(answer: &Answer) -> (u16, &str) {
    (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default())
}
