//! `POST /admin/lexicons`: uploads a lexicon, or a newer revision of one; or up to 2,000 lexicons, all or none. They apply
//! to requests and to the running stream before the answer is sent.

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::Serialize;

use super::Accepted;
use super::uploads::{LexiconUploads, Uploads};
use crate::access::Admin;
use crate::api::admin::backfill;
use crate::api::answer::Json;
use crate::api::input::WithBody;
use crate::app::App;
use crate::app::Topic;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::lexicons::{self, Change, Identical, NewLexicon, Upserted};
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedLexicon {
    #[schemars(extend("format" = "nsid"))]
    pub(in crate::api::admin) id: String,
    pub(in crate::api::admin) revision: i64,
    /// Null when the upload started no backfill.
    pub(in crate::api::admin) backfill_job_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::api::admin) warnings: Vec<String>,
}

/// A lexicon of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedLexiconOfList {
    #[serde(flatten)]
    saved: SavedLexicon,
    /// `new`, `changed`, or `unchanged`: nothing was stored, because document and settings are the stored ones.
    #[schemars(extend("enum" = ["new", "changed", "unchanged"]))]
    change: &'static str,
}

impl From<(SavedLexicon, Change)> for SavedLexiconOfList {
    fn from((saved, change): (SavedLexicon, Change)) -> Self {
        Self { saved, change: change.as_str() }
    }
}

/// The answer has the form of the request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SavedLexicons {
    One(SavedLexicon),
    /// In the order of the request.
    Several {
        lexicons: Vec<SavedLexiconOfList>,
    },
}

type Answer = Either<Json<SavedLexicon, 201>, Json<SavedLexicons>>;

pub async fn handle(app: Arc<App>, admin: Admin, request: WithBody<LexiconUploads>) -> Result<Answer, Error> {
    let uploads = Uploads::read(&request)?;
    let is_list = uploads.is_list;
    // An upload of one lexicon is a revision even if nothing changes: it ends that the lexicon follows the network.
    let identical = if is_list { Identical::Stays } else { Identical::Revises };
    let mut saved = save(&app, &admin, uploads.all_valid()?, identical).await?;
    if is_list {
        let lexicons = saved.into_iter().map(SavedLexiconOfList::from).collect();
        return Ok(Either::Right(Json(SavedLexicons::Several { lexicons })));
    }
    let (saved, change) = saved.pop().ok_or_else(|| Error::internal("an upload has no result"))?;
    Ok(match change {
        Change::New => Either::Left(Json(saved)),
        Change::Changed | Change::Unchanged => Either::Right(Json(SavedLexicons::One(saved))),
    })
}

/// Stores the lexicons, and lets them take effect. Returns their results in the same order.
async fn save(
    app: &App,
    admin: &Admin,
    mut new: Vec<NewLexicon>,
    identical: Identical,
) -> Result<Vec<(SavedLexicon, Change)>, Error> {
    let saved_by = Some(admin.did.to_string());
    for lexicon in &mut new {
        lexicon.saved_by.clone_from(&saved_by);
    }
    let upserted = lexicons::upsert_all(&app.db, &new, identical, app.clock.now()).await?;
    if upserted.iter().any(|one| one.change != Change::Unchanged) {
        app.changed(Topic::Lexicons).await?;
    }
    Ok(announce(app, admin, new, upserted).await)
}

/// Records the events of lexicons that are in force now, starts their backfills, and returns their results in the same order.
pub(in crate::api::admin) async fn announce(
    app: &App,
    admin: &Admin,
    new: Vec<NewLexicon>,
    upserted: Vec<Upserted>,
) -> Vec<(SavedLexicon, Change)> {
    for (lexicon, upserted) in new.iter().zip(&upserted) {
        record(app, admin, lexicon, *upserted);
    }
    let bytes = new.iter().map(|lexicon| lexicon.lexicon_json.len()).sum();
    let warnings: Vec<_> =
        hand_over_thread(bytes, || new.iter().map(|lexicon| warnings(app, lexicon)).collect());
    let mut saved = Vec::with_capacity(new.len());
    for ((lexicon, mut warnings), Upserted { change, revision }) in
        new.into_iter().zip(warnings).zip(upserted)
    {
        // After the lexicons apply to the stream, so that no record is missed by both.
        let backfill_job_id = if change == Change::New && lexicon.backfill {
            // The lexicons are stored: the next one may still get its own.
            backfill::start_for_lexicon(app, admin, &lexicon.id).await.unwrap_or_else(|error| {
                tracing::warn!(lexicon = lexicon.id, ?error, "a backfill could not be started");
                warnings.push("its backfill could not be started: start one yourself".to_owned());
                None
            })
        } else {
            None
        };
        saved.push((SavedLexicon { id: lexicon.id, revision, backfill_job_id, warnings }, change));
    }
    saved
}

/// Warnings about a lexicon that is in force now. Its target collection may be one that was kept.
fn warnings(app: &App, lexicon: &NewLexicon) -> Vec<String> {
    let target = app.registry.get(&lexicon.id).and_then(|stored| stored.target_collection.clone());
    let accepted =
        Accepted { target_collection: target.as_ref().map(Nsid::as_str), ..Accepted::of_new(lexicon) };
    super::warnings(app, &app.registry.snapshot(), &accepted)
}

/// Records the event of an upload that was stored.
fn record(app: &App, admin: &Admin, lexicon: &NewLexicon, upserted: Upserted) {
    let (actor, nsid, revision) = (admin.did.to_string(), lexicon.id.clone(), upserted.revision);
    match upserted.change {
        Change::New => app.events.record(Event::LexiconCreated { actor, nsid, revision }),
        Change::Changed => app.events.record(Event::LexiconUpdated { actor, nsid, revision }),
        Change::Unchanged => {}
    }
}
