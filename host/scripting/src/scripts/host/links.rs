//! `db.backlinks`, `db.link_counts` and `db.links_by`: the records that refer to others, and to whom.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::arguments::{check_lengths, invalid, nsid};
use super::reading::{call_index, page};
use super::state::RunState;
use super::{fault, handles};
use crate::scripts::bindings::belvedere::script::db::{BacklinksArgs, LinkKind, Page};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::{Backlinks, Links, PageSize, Position};
use belvedere_storage::store::records::links::{MAX_KINDS, MAX_TARGETS};

pub(super) async fn backlinks(state: &mut RunState, args: BacklinksArgs) -> Result<Page, Fault> {
    const FUNCTION: &str = "db.backlinks";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let BacklinksArgs { collection, target, path, did, limit, cursor, uris_only } = args;
    check_lengths(
        FUNCTION,
        &[Some(&collection), Some(&target), path.as_ref(), did.as_ref(), cursor.as_ref()],
    )?;
    check_target(FUNCTION, &target)?;
    let links = links(FUNCTION, &collection, path)?;
    let after = Position::read(cursor.as_deref(), None).map_err(|error| invalid(FUNCTION, error))?;
    // References name accounts by their DIDs.
    let target = handles::with_did(state, FUNCTION, target).await?;
    let did = handles::account(state, FUNCTION, did).await?;
    let size = if uris_only { PageSize::URIS } else { PageSize::RECORDS };
    let wanted = Backlinks { links, target, did, after, limit: size.clamp(limit), uris_only };
    let found = call_index(state, FUNCTION, index.backlinks(tenant, wanted)).await?;
    page(state, &found)
}

/// JSON: by target and the name of the kind, the number of records.
pub(super) async fn counts(
    state: &mut RunState,
    targets: Vec<String>,
    kinds: Vec<LinkKind>,
) -> Result<Vec<u8>, Fault> {
    const FUNCTION: &str = "db.link_counts";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let mut found = Found::new(state, FUNCTION, targets, &kinds)?;
    for kind in kinds {
        let links = links(FUNCTION, &kind.collection, kind.path)?;
        let call = index.link_counts(tenant.clone(), links, found.targets.clone());
        let counts = call_index(state, FUNCTION, call).await?;
        found.add(&kind.name, counts.into_iter().map(|count| Some(count.into())));
    }
    Ok(found.into_json())
}

/// JSON: by target and the name of the kind, the AT URI of the account's newest record.
pub(super) async fn of_account(
    state: &mut RunState,
    did: String,
    targets: Vec<String>,
    kinds: Vec<LinkKind>,
) -> Result<Vec<u8>, Fault> {
    const FUNCTION: &str = "db.links_by";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let mut found = Found::new(state, FUNCTION, targets, &kinds)?;
    let Some(did) = handles::account(state, FUNCTION, Some(did)).await? else { return Ok(found.into_json()) };
    for kind in kinds {
        let links = links(FUNCTION, &kind.collection, kind.path)?;
        let call = index.links_of(tenant.clone(), did.clone(), links, found.targets.clone());
        let rkeys = call_index(state, FUNCTION, call).await?;
        let uri = |rkey: String| format!("at://{did}/{}/{rkey}", kind.collection).into();
        found.add(&kind.name, rkeys.into_iter().map(|rkey| rkey.map(uri)));
    }
    Ok(found.into_json())
}

/// Values by target and kind.
struct Found {
    /// Each once.
    targets: Vec<String>,
    values: Vec<Map<String, Value>>,
}

impl Found {
    fn new(
        state: &mut RunState,
        function: &str,
        targets: Vec<String>,
        kinds: &[LinkKind],
    ) -> Result<Self, Fault> {
        for (what, given, max) in [("targets", targets.len(), MAX_TARGETS), ("kinds", kinds.len(), MAX_KINDS)]
        {
            if given > max {
                let text = format!("{function}: at most {max} {what} at once");
                return Err(fault::new(FaultCode::Limit, text));
            }
        }
        for target in &targets {
            check_lengths(function, &[Some(target)])?;
            check_target(function, target)?;
        }
        let targets: Vec<String> = targets.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        state.count_rows(targets.len() * kinds.len(), 0)?;
        Ok(Self { values: vec![Map::new(); targets.len()], targets })
    }

    fn add(&mut self, kind: &str, values: impl Iterator<Item = Option<Value>>) {
        for (of_target, value) in self.values.iter_mut().zip(values) {
            of_target.extend(value.map(|value| (kind.to_owned(), value)));
        }
    }

    fn into_json(self) -> Vec<u8> {
        let values = self.values.into_iter().map(Value::Object);
        let found: Map<String, Value> = self.targets.into_iter().zip(values).collect();
        Value::Object(found).to_string().into_bytes()
    }
}

fn links(function: &str, collection: &str, path: Option<String>) -> Result<Links, Fault> {
    check_lengths(function, &[path.as_ref()])?;
    Links::new(nsid(function, collection)?, path).map_err(|error| invalid(function, error))
}

fn check_target(function: &str, target: &str) -> Result<(), Fault> {
    if (target.starts_with("at://") || Did::try_from(target).is_ok()) && !target.contains('\0') {
        return Ok(());
    }
    Err(invalid(function, format!("target {target:?} is neither an AT URI nor a DID")))
}
