//! Gathers what is known about a record: from the index, the event log, the backfills, and the PDS of its author.

use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::indexing::{CURSOR_SOURCE, fetch};
use belvedere_protocol::atproto::{RecordUri, Tid};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::events::{self, EventFilter, EventRow};
use belvedere_storage::store::gaps::{self, OpenGap};
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::moderation::{self, ModerationRow, Subject};
use belvedere_storage::store::record_trace::{self, BackfillTrace, DeadLetterTrace, IndexedTrace};
use belvedere_storage::store::{backfill, cursors, lexicons};
use belvedere_web::http::Error;

/// Events that say that the server did not take a record.
const REJECTIONS: [&str; 2] = ["record.rejected", "record.cid_mismatch"];

#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Whether the record's collection is indexed.
    pub is_tracked: bool,
    /// The time since which it is indexed: that at which its lexicon was uploaded.
    pub tracked_since: Option<Timestamp>,
    pub account: Option<AccountStatus>,
    /// The decision in force of an operator, on the record or else on its account.
    pub moderation: Option<ModerationRow>,
    pub indexed: Option<IndexedTrace>,
    pub deleted_at: Option<Timestamp>,
    pub letter: Option<DeadLetterTrace>,
    pub rejection: Option<EventRow>,
    pub in_repo: InRepo,
    /// The time at which the record was created, if its key says it.
    pub created_at: Option<Timestamp>,
    /// Everything up to this time has been read from the stream.
    pub cursor: Option<Timestamp>,
    pub gaps: Vec<OpenGap>,
    pub backfills: Vec<BackfillTrace>,
    /// The script that decides about such records, by its trigger.
    pub script: Option<String>,
}

/// The record's state at the author's PDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InRepo {
    NotAsked,
    Present,
    Absent,
    /// It can't be asked, for this reason.
    Unknown(String),
}

impl Facts {
    /// `look`: asks the PDS.
    pub(super) async fn gather(app: &App, uri: &RecordUri, look: bool) -> Result<Self, Error> {
        let (db, collection) = (&app.db, uri.collection.as_str());
        // Other causes of the events may still be in the queue.
        app.events.flush().await;
        let mut rejection = None;
        for event_type in REJECTIONS {
            let filter = EventFilter {
                event_type: Some(event_type.to_owned()),
                subject_is: Some(uri.to_string()),
                ..EventFilter::default()
            };
            rejection = rejection.or(events::list(db, &filter, 1).await?.into_iter().next());
        }
        let script = app.scripting.runtime.scripts.for_record(collection, TriggerKind::RecordCreate);
        let mut moderation = moderation::active(db, &Subject::Record(uri.clone())).await?;
        if moderation.is_none() {
            moderation = moderation::active(db, &Subject::Account(uri.did.clone())).await?;
        }
        let in_repo = if look { ask(app, uri).await } else { InRepo::NotAsked };
        Ok(Self {
            is_tracked: app.registry.snapshot().is_tracked(collection),
            tracked_since: lexicons::get(db, collection).await?.map(|row| row.created_at),
            account: backfill::account_status(db, &uri.did).await?,
            moderation,
            indexed: record_trace::indexed(db, uri).await?,
            deleted_at: record_trace::deleted_at(db, uri).await?,
            letter: record_trace::letter(db, uri).await?,
            rejection,
            in_repo,
            created_at: created_at(uri),
            cursor: cursors::get(db, CURSOR_SOURCE).await?.map(Timestamp),
            gaps: gaps::open(db).await?,
            backfills: record_trace::backfills(db, uri).await?,
            script: script.map(|script| script.trigger().id().to_owned()),
        })
    }
}

async fn ask(app: &App, uri: &RecordUri) -> InRepo {
    match fetch::record(&app.core.net, &app.core.resolver, uri).await {
        Ok(Some(_)) => InRepo::Present,
        Ok(None) => InRepo::Absent,
        Err(error) => InRepo::Unknown(error.to_string()),
    }
}

/// Most record keys are TIDs, which begin with a time.
fn created_at(uri: &RecordUri) -> Option<Timestamp> {
    let tid = Tid::try_from(uri.rkey.as_str()).ok()?;
    i64::try_from(tid.timestamp_micros()).ok().map(Timestamp)
}
