//! Helpers to create spaces, records and batches.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, record};
use belvedere_protocol::spaces::access::{MemberAccess, Policy, Readable};
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use serde_json::json;

pub use crate::store::Db;
pub use crate::store::spaces::lists::List;
use crate::store::spaces::members::{self, IfMember, Member, Put};
pub use crate::store::spaces::records::{Authors, PAGE_BYTES};
pub use crate::store::spaces::settings::Settings;
pub use crate::store::spaces::space;
pub use crate::store::spaces::writes::{self, Applied, Batch, NewRecord, Precondition, Refused, Write};
pub use crate::store::spaces::{SpaceId, records};
pub use crate::store::tests::fixtures::{count, did};

/// The creator of spaces.
pub const CREATOR: u32 = 1;
pub const READER: MemberAccess = MemberAccess { reads: Readable::Everything, writes: false };
pub const WRITER: MemberAccess = MemberAccess { reads: Readable::Everything, writes: true };
pub const NOTE: &str = "com.example.note";

pub fn uri(skey: &str) -> SpaceUri {
    SpaceUri::parse(&format!("at://did:plc:host/space/com.example.group/{skey}")).unwrap()
}

pub fn settings() -> Settings {
    Settings {
        display_name: Some("Friends".to_owned()),
        description: None,
        read_policy: Policy::MemberList,
        write_policy: Policy::MemberList,
        app_access: AppAccess::Open,
        config: SpaceConfig::default(),
    }
}

pub async fn create(db: &Db, skey: &str) -> SpaceId {
    space::create(db, &uri(skey), &did(CREATOR), &settings(), Timestamp(1)).await.unwrap().unwrap()
}

pub async fn join(db: &Db, space: SpaceId, n: u32, access: MemberAccess) -> Put {
    let did = did(n);
    let member = Member::Account(&did);
    members::put(db, space, member, access, &did_of_creator(), IfMember::Replace, Timestamp(2)).await.unwrap()
}

pub fn did_of_creator() -> Did {
    did(CREATOR)
}

pub fn path(text: &str) -> RecordPath {
    RecordPath::parse(text).unwrap()
}

/// The path of a note.
pub fn note(rkey: &str) -> RecordPath {
    path(&format!("{NOTE}/{rkey}"))
}

pub fn new_record(text: &str) -> NewRecord {
    let cid = record::inspect(text.as_bytes()).unwrap().cid.unwrap();
    NewRecord { cid, text: text.to_owned(), blobs: Vec::new() }
}

/// A record whose content is a number.
pub fn numbered(n: u64) -> NewRecord {
    new_record(&json!({ "n": n }).to_string())
}

pub fn put(path: &RecordPath, n: u64) -> Write {
    Write { path: path.clone(), record: Some(numbered(n)), requires: Precondition::Any }
}

pub fn take(path: &RecordPath) -> Write {
    Write { path: path.clone(), record: None, requires: Precondition::Any }
}

pub fn requiring(write: Write, requires: Precondition) -> Write {
    Write { requires, ..write }
}

/// Applies a batch of an account that is a writer.
pub async fn apply(
    db: &Db,
    space: SpaceId,
    author: u32,
    now: i64,
    writes: &[Write],
) -> Result<Applied, Refused> {
    let author = did(author);
    let batch =
        Batch { space, author: &author, writes, swap_commit: None, is_writer: true, now: Timestamp(now) };
    writes::apply(db, &batch).await.unwrap()
}

/// A list of the records of all authors, in order.
pub fn list_all() -> List<'static> {
    List {
        authors: Authors::All,
        collection: None,
        is_reverse: false,
        with_text: true,
        after: None,
        limit: 1_000,
        max_bytes: PAGE_BYTES,
    }
}
