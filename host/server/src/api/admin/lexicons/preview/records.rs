//! The newest records that another version of a lexicon rejects.

use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::lexicons::Snapshot;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::PageSize;
use belvedere_storage::query::Query;
use belvedere_storage::store::index::Validity;
use belvedere_storage::store::query;
use belvedere_storage::store::records::{self, FullRecordRow};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// Records that are validated: enough to notice a rule that real records break, and a fraction of a second of work.
const MAX_CHECKED: usize = 500;

/// Records that the answer names.
const MAX_EXAMPLES: usize = 5;

/// The effect on the records of a collection. The figures are those of the newest records, not of all.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct RecordsPreview {
    total: u64,
    checked: usize,
    become_invalid: usize,
    become_valid: usize,
    examples: Vec<InvalidExample>,
}

/// A record that becomes invalid.
#[derive(Debug, Serialize, JsonSchema)]
struct InvalidExample {
    #[schemars(extend("format" = "at-uri"))]
    uri: String,
    reason: String,
}

impl RecordsPreview {
    /// Counts a record with what the other version says of it.
    fn add(&mut self, full: &FullRecordRow, next: &Validity) {
        self.checked += 1;
        match (full.invalid_reason.is_some(), next.reason()) {
            (false, Some(reason)) => {
                self.become_invalid += 1;
                if self.examples.len() < MAX_EXAMPLES {
                    self.examples.push(InvalidExample { uri: full.row.uri(), reason: reason.to_owned() });
                }
            }
            (true, None) => self.become_valid += 1,
            _ => {}
        }
    }
}

/// Compares two versions of the lexicons by the newest records of collections.
pub(super) struct Comparison<'a> {
    app: &'a App,
    current: &'a Snapshot,
    next: &'a Snapshot,
    /// Collections that may still be looked at.
    budget: usize,
    /// Collections that were not looked at any more.
    pub(super) left_out: usize,
}

impl<'a> Comparison<'a> {
    /// `max_collections`: those whose records are validated.
    pub(super) fn new(
        app: &'a App,
        (current, next): (&'a Snapshot, &'a Snapshot),
        max_collections: usize,
    ) -> Self {
        Self { app, current, next, budget: max_collections, left_out: 0 }
    }

    /// Validates the newest records of a collection against both versions. `None` if its lexicon and those that it refers
    /// to don't change, if it has no records, or if it is left out.
    pub(super) async fn validate(&mut self, collection: &Nsid) -> Result<Option<RecordsPreview>, Error> {
        let (app, next, id) = (self.app, self.next, collection.as_str());
        let is_affected = next.is_tracked(id) && self.current.fingerprint(id) != next.fingerprint(id);
        if !is_affected {
            return Ok(None);
        }
        if self.budget == 0 {
            self.left_out += 1;
            return Ok(None);
        }
        let total = records::count(&app.db, collection, None, &Tenant::Instance).await?;
        let mut view = RecordsPreview { total, ..RecordsPreview::default() };
        let mut newest =
            Query { limit: PageSize::RECORDS.clamp(Some(i64::MAX)), ..Query::of(collection.clone()) };
        while view.checked < MAX_CHECKED {
            let page = query::read_full(&app.db, &newest, &Tenant::Instance).await?;
            let bytes = page.rows.iter().map(|full| full.row.record.len()).sum();
            hand_over_thread(bytes, || {
                for full in page.rows.iter().take(MAX_CHECKED - view.checked) {
                    view.add(full, &next.validate(id, &full.row.rkey, &full.row.record));
                }
            });
            newest.after = page.next;
            if newest.after.is_none() {
                break;
            }
        }
        if view.checked == 0 {
            return Ok(None);
        }
        self.budget -= 1;
        Ok(Some(view))
    }
}
