//! A dead letter as answers show it.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::store::dead_letters::LetterRow;

#[derive(Serialize)]
pub(super) struct LetterView {
    id: String,
    lexicon_id: String,
    uri: String,
    did: String,
    collection: String,
    rkey: String,
    action: String,
    error: String,
    attempts: i64,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<Timestamp>,
}

/// With the record, or the whole label.
#[derive(Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    letter: LetterView,
    script: String,
    record: Option<Box<RawValue>>,
}

impl From<LetterRow> for LetterView {
    fn from(row: LetterRow) -> Self {
        let letter = row.letter;
        Self {
            id: row.id.to_string(),
            lexicon_id: letter.lexicon_id,
            uri: letter.uri,
            did: letter.did,
            collection: letter.collection,
            rkey: letter.rkey,
            action: letter.action,
            error: row.error,
            attempts: row.attempts,
            created_at: row.created_at,
            resolved_at: row.resolved_at,
        }
    }
}

impl Detail {
    pub(super) fn new(mut row: LetterRow) -> Result<Self, serde_json::Error> {
        let record = row.letter.payload.take().map(RawValue::from_string).transpose()?;
        let script = std::mem::take(&mut row.letter.script_ref);
        Ok(Self { letter: row.into(), script, record })
    }
}
