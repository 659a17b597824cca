//! Permissioned spaces of test files: `given.space`, `given.record` for a record in one, and `seen.space`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::world::{Refused, World, parse, parse_did};
use crate::app::Topic;
use belvedere_instance::settings::SPACES_ENABLED;
use belvedere_instance::spaces::{
    Account, ListQuery, NamedMember, RecordWrite, Viewer, WriteKind, WriteRequest,
};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::access::{MemberAccess, Policy};
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::{SpaceRecordUri, SpaceUri};
use belvedere_storage::store::records::PAGE_BYTES;
use belvedere_storage::store::settings;
use belvedere_storage::store::spaces::members::IfMember;
use belvedere_storage::store::spaces::settings::Settings;
use belvedere_storage::store::spaces::space;

/// Records of one list.
const MAX_RECORDS: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenSpace {
    space: String,
    creator: Option<String>,
    #[serde(default)]
    members: BTreeMap<String, String>,
    /// Everyone reads it.
    #[serde(default)]
    public: bool,
}

/// Makes a space that this instance hosts, as its creator.
pub(super) async fn space(world: &World, input: &[u8]) -> Result<Value, Refused> {
    const FUNCTION: &str = "given.space";
    let GivenSpace { space: text, creator, members, public } = parse(FUNCTION, input)?;
    let refused = |error: &dyn std::fmt::Display| Refused(format!("{FUNCTION}: {text}: {error}"));
    let uri = SpaceUri::parse(&text).map_err(|error| refused(&error))?;
    let creator = match creator {
        Some(creator) => parse_did("given.space: creator", &creator)?,
        None => uri.did.clone(),
    };
    let (app, now) = (&world.app, world.clock.now());
    settings::set(&app.db, SPACES_ENABLED, "true", now).await.map_err(Refused::of)?;
    app.reload(&Topic::Settings).await.map_err(Refused::of)?;
    let settings = Settings {
        display_name: None,
        description: None,
        read_policy: if public { Policy::Public } else { Policy::MemberList },
        write_policy: Policy::MemberList,
        app_access: AppAccess::Open,
        config: SpaceConfig::default(),
    };
    let created = space::create(&app.db, &uri, &creator, &settings, now).await.map_err(Refused::of)?;
    created.ok_or_else(|| refused(&"the space exists"))?;
    let viewer = viewer(&creator);
    for (member, word) in members {
        let member: NamedMember = member.parse().map_err(|error| refused(&error))?;
        let access = MemberAccess::of_word(&word).ok_or_else(|| {
            refused(&format!("{word:?} is no right: write, read, read_self or none expected"))
        })?;
        let put = app.spaces.put_member(&uri, &viewer, &member, access, IfMember::Replace);
        put.await.map_err(|error| refused(&error))?;
    }
    Ok(json!({ "space": text }))
}

/// An account that acts without an app.
fn viewer(did: &Did) -> Viewer {
    Viewer::Account(Account { did: did.clone(), app: None, is_super_user: false })
}

/// Writes a record to the repo of its author in a space, where the author must be a member who writes.
pub(super) async fn record(world: &World, text: &str, record: Map<String, Value>) -> Result<Value, Refused> {
    let refused = |error: &dyn std::fmt::Display| Refused(format!("given.record: {text}: {error}"));
    let SpaceRecordUri { space, author, path } =
        SpaceRecordUri::parse(text).map_err(|error| refused(&error))?;
    let write = RecordWrite {
        kind: WriteKind::Put,
        collection: path.collection,
        rkey: Some(path.rkey),
        record: Some(record),
        swap: None,
    };
    let request = WriteRequest { repo: None, writes: vec![write], swap_commit: None, validate: None };
    let written = world.app.spaces.write(&space, &viewer(&author), request).await;
    written.map_err(|error| refused(&error))?;
    Ok(json!({ "uri": text }))
}

/// The records of a space as its creator reads them, for `seen.space`.
pub(super) async fn records(world: &World, text: &str) -> Result<Vec<Value>, Refused> {
    let refused = |error: &dyn std::fmt::Display| Refused(format!("seen.space: {text}: {error}"));
    let uri = SpaceUri::parse(text).map_err(|error| refused(&error))?;
    let row = space::get(&world.app.db, &uri).await.map_err(Refused::of)?;
    let creator = row.ok_or_else(|| refused(&"there is no such space"))?.creator;
    let query = ListQuery {
        repo: None,
        collection: None,
        after: None,
        limit: MAX_RECORDS,
        is_reverse: false,
        with_values: true,
        max_bytes: PAGE_BYTES,
    };
    let page = world.app.spaces.records(&uri, &viewer(&creator), &query).await;
    let page = page.map_err(|error| refused(&error))?;
    let shown = page.records.iter().map(|record| {
        let value: Option<&RawValue> =
            record.text.as_deref().and_then(|text| serde_json::from_str(text).ok());
        json!({
            "uri": format!("{uri}/{}/{}/{}", record.author, record.path.collection, record.path.rkey),
            "cid": record.cid.to_string(),
            "record": value,
        })
    });
    Ok(shown.collect())
}
