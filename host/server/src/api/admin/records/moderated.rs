//! Moderated records in `GET /admin/records`: those that operators have hidden or taken down here (ADR 133).

use std::collections::HashMap;

use super::conditions::ModeratedRequest;
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::RecordKey;
use belvedere_storage::query::{Narrow, Position, Query};
use belvedere_storage::store::moderation::{self, ModerationRow};
use belvedere_storage::store::records::FullRecordRow;
use belvedere_storage::store::records::moderated::{self, ModeratedPlace, ModeratedQuery};
use belvedere_web::http::Error;

/// A page of moderated records with the decisions on them.
pub(super) struct ModeratedPage {
    pub rows: Vec<FullRecordRow>,
    /// By record or account.
    pub decisions: HashMap<String, ModerationRow>,
    pub cursor: Option<String>,
}

/// The place where a page begins. Records that are moderated by themselves come first, then those of a moderated account.
enum Place {
    Records(Option<ModeratedPlace>),
    Account(Option<Position>),
}

/// # Errors
/// 400 for an invalid cursor, or when the database can't be read.
pub(super) async fn page(app: &App, request: &ModeratedRequest) -> Result<ModeratedPage, Error> {
    let (mut rows, mut cursor) = (Vec::new(), None);
    let mut place = Place::read(request.cursor.as_deref())?;
    if let Place::Records(after) = place {
        let query = ModeratedQuery {
            collection: request.collection.clone(),
            did: request.did.clone(),
            rkey: request.rkey.clone(),
            after,
            limit: request.limit,
        };
        let next;
        (rows, next) = moderated::page(&app.db, &query).await?;
        cursor = next.map(|next| records_cursor(&next));
        place = Place::Account(None);
    }
    if let (Place::Account(after), None) = (place, &cursor)
        && let Some(did) = &request.did
    {
        let is_moderated = !moderation::active_on(&app.db, &[did.to_string()]).await?.is_empty();
        let left = request.limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        if is_moderated && left == 0 {
            cursor = Some(account_cursor(None));
        } else if is_moderated {
            let query = Query {
                did: Some(did.clone()),
                limit: left,
                after,
                narrow: Narrow { rkey: request.rkey.as_ref().map(RecordKey::to_string), ..Narrow::default() },
                ..Query::of(request.collection.clone())
            };
            let found = moderated::of_account(&app.db, &query).await?;
            cursor = found.next.as_ref().map(|next| account_cursor(Some(next)));
            rows.extend(found.rows);
        }
    }
    let mut subjects: Vec<String> = rows.iter().map(|full| full.row.uri()).collect();
    subjects.extend(rows.iter().map(|full| full.row.did.clone()));
    let decisions = moderation::active_on(&app.db, &subjects).await?;
    Ok(ModeratedPage { rows, decisions, cursor })
}

fn records_cursor(ModeratedPlace { indexed_at, did_id, rkey }: &ModeratedPlace) -> String {
    format!("r_{}_{did_id}_{rkey}", indexed_at.0)
}

fn account_cursor(next: Option<&Position>) -> String {
    format!("a_{}", next.map(Position::cursor).unwrap_or_default())
}

impl Place {
    fn read(cursor: Option<&str>) -> Result<Self, Error> {
        let Some(cursor) = cursor else { return Ok(Self::Records(None)) };
        let read = || match cursor.split_once('_')? {
            ("a", position) => Some(Self::Account(Position::read(Some(position), None).ok()?)),
            ("r", place) => {
                let mut parts = place.splitn(3, '_');
                let indexed_at = Timestamp(parts.next()?.parse().ok()?);
                let did_id = parts.next()?.parse().ok()?;
                let rkey = RecordKey::try_from(parts.next()?).ok()?.to_string();
                Some(Self::Records(Some(ModeratedPlace { indexed_at, did_id, rkey })))
            }
            _ => None,
        };
        read().ok_or_else(|| Error::bad_request("cursor must be the cursor of an earlier answer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let place = ModeratedPlace { indexed_at: Timestamp(-5), did_id: 7, rkey: "a_b".to_owned() };
        let Ok(Place::Records(Some(read))) = Place::read(Some(&records_cursor(&place))) else { panic!() };
        assert_eq!(read, place);
        assert!(matches!(Place::read(Some(&account_cursor(None))), Ok(Place::Account(None))));
        for bad in ["x", "r_1_2", "r_x_2_a", "r_1_2_a b", "a_x", "b_"] {
            assert!(Place::read(Some(bad)).is_err(), "{bad}");
        }
    }
}
