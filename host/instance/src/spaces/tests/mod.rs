//! Tests of the whole room, with a model of who may see what.

mod checks;
mod histories;
mod model;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Account, NewSpace, RecordWrite, Spaces, Viewer, WriteKind, WriteRequest};
use crate::core::Core;
use crate::pds::Sessions;
use crate::repos::Repos;
use crate::service_identity::ServiceIdentity;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::Policy;
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_storage::store::Db;
use belvedere_storage::store::spaces::settings::Settings;

const NOW: Timestamp = Timestamp(1_750_000_000_000_000);
const NOTE: &str = "com.example.note";

/// A user, by number.
fn did(user: usize) -> Did {
    Did::try_from(format!("did:plc:user{user}").as_str()).unwrap()
}

/// The call of a user without an app.
fn viewer(user: usize) -> Viewer {
    Viewer::Account(Account { did: did(user), app: None, is_super_user: false })
}

/// A room without an identity that signs, so that each space belongs to its creator.
fn room(db: &Db) -> (Spaces, Clock) {
    let clock = Clock::fixed(NOW);
    let identity = ServiceIdentity::new(Did::try_from("did:web:here.example").unwrap());
    let core = Core::testing(db, &clock);
    let repos = Repos::new(&core, Sessions::none());
    (Spaces::new(core, Arc::default(), identity, repos), clock)
}

fn members_only() -> Settings {
    Settings {
        display_name: None,
        description: None,
        read_policy: Policy::MemberList,
        write_policy: Policy::MemberList,
        app_access: AppAccess::Open,
        config: SpaceConfig::default(),
    }
}

async fn create(spaces: &Spaces, creator: usize, skey: &str) -> SpaceUri {
    let kind = Nsid::try_from("com.example.group").unwrap();
    let skey = Some(RecordKey::try_from(skey).unwrap());
    let new = NewSpace { kind, skey, settings: members_only() };
    spaces.create(&viewer(creator), new).await.unwrap()
}

/// A write to one record. Its text is a secret, and it refers to a blob with the same number.
fn write(kind: WriteKind, rkey: &str, content: u64) -> WriteRequest {
    let record = (kind != WriteKind::Delete).then(|| match text(content) {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    });
    let rkey = Some(RecordKey::try_from(rkey).unwrap());
    let write = RecordWrite { kind, collection: Nsid::try_from(NOTE).unwrap(), rkey, record, swap: None };
    WriteRequest { repo: None, writes: vec![write], swap_commit: None, validate: None }
}

/// The record with a number.
fn text(content: u64) -> Value {
    json!({ "$type": NOTE, "text": format!("secret-{content}") })
}
