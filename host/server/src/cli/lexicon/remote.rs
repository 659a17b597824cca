//! The lexicons of the server to which they are pushed and from which they are pulled.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::remote::{Remote, Server};
use super::files::LexiconFile;
use crate::api::admin::lexicons::uploads::{MAX_BYTES, MAX_LEXICONS};
use belvedere_instance::config::Config;

/// Bytes of a call besides the documents: of each lexicon, and of the rest.
const FRAME_BYTES: usize = 100;

/// A lexicon on the server.
#[derive(Debug, Deserialize)]
pub(super) struct StoredLexicon {
    pub(super) id: String,
    /// `manual` or `network`.
    pub(super) source: String,
    pub(super) lexicon_json: Box<RawValue>,
    #[serde(flatten)]
    pub(super) settings: LexiconSettings,
}

/// The settings of a lexicon that its document does not contain. Absent ones stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct LexiconSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) target_collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) token_cost: Option<u32>,
}

/// The result of an upload.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct SavedLexicon {
    pub(super) id: String,
    pub(super) change: Change,
    pub(super) backfill_job_id: Option<String>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

impl SavedLexicon {
    pub(in crate::cli) fn is_unchanged(&self) -> bool {
        self.change == Change::Unchanged
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Change {
    New,
    Changed,
    Unchanged,
    Invalid,
}

/// The effect that an upload would have.
#[derive(Debug, Deserialize)]
pub(super) struct Preview {
    pub(super) lexicons: Vec<LexiconPreview>,
    pub(super) affected: Vec<AffectedCollection>,
    #[serde(default)]
    pub(super) collections_left_out: usize,
}

#[derive(Debug, Deserialize)]
pub(super) struct LexiconPreview {
    pub(super) id: Option<String>,
    pub(super) change: Change,
    pub(super) error: Option<String>,
    pub(super) source: Option<String>,
    pub(super) breaking: Option<String>,
    pub(super) records: Option<RecordsPreview>,
    pub(super) starts_backfill: bool,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AffectedCollection {
    pub(super) collection: String,
    pub(super) records: RecordsPreview,
}

#[derive(Debug, Deserialize)]
pub(super) struct RecordsPreview {
    pub(super) checked: usize,
    pub(super) become_invalid: usize,
}

#[derive(Serialize)]
struct Uploads<'a> {
    lexicons: &'a [Upload<'a>],
    keep_settings: bool,
}

/// A lexicon of a call.
#[derive(Serialize)]
pub(in crate::cli) struct Upload<'a> {
    lexicon_json: &'a RawValue,
    backfill: bool,
    #[serde(flatten)]
    settings: Option<&'a LexiconSettings>,
}

impl<'a> Upload<'a> {
    pub(in crate::cli) fn of(
        text: &'a str,
        backfill: bool,
        settings: Option<&'a LexiconSettings>,
    ) -> serde_json::Result<Self> {
        Ok(Self { lexicon_json: serde_json::from_str(text)?, backfill, settings })
    }
}

/// `/admin/lexicons` of the server.
pub(super) struct Lexicons(Remote);

impl Lexicons {
    /// To read only.
    pub(super) fn of(server: &Server, config: &Config) -> anyhow::Result<Self> {
        Remote::new(server, "lexicons:read", config).map(Self)
    }

    /// To change them.
    pub(super) fn to_change(server: &Server, deletes: bool, config: &Config) -> anyhow::Result<Self> {
        let needed =
            if deletes { "lexicons:read, lexicons:create and lexicons:delete" } else { "lexicons:create" };
        Remote::new(server, needed, config).map(Self)
    }

    /// All lexicons, by id.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<StoredLexicon>> {
        self.0.get("/admin/lexicons?documents=true").await
    }

    /// Stores lexicons, all or none. The settings of existing ones stay.
    pub(super) async fn upload(&self, lexicons: &[Upload<'_>]) -> anyhow::Result<Vec<SavedLexicon>> {
        #[derive(Deserialize)]
        struct Answer {
            lexicons: Vec<SavedLexicon>,
        }
        let answer: Answer =
            self.0.post("/admin/lexicons", &Uploads { lexicons, keep_settings: true }).await?;
        Ok(answer.lexicons)
    }

    pub(super) async fn preview(&self, lexicons: &[Upload<'_>]) -> anyhow::Result<Preview> {
        self.0.post("/admin/lexicons/preview", &Uploads { lexicons, keep_settings: true }).await
    }

    pub(super) async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.0.send(Method::DELETE, &format!("/admin/lexicons/{id}"), None).await.map(drop)
    }
}

/// The lexicons of each call: one, unless they are more than a call may have.
pub(super) fn calls<'a, 'b>(files: &'b [&'a LexiconFile]) -> Vec<&'b [&'a LexiconFile]> {
    let (mut calls, mut start, mut bytes) = (Vec::new(), 0, FRAME_BYTES);
    for (at, file) in files.iter().enumerate() {
        let more = file.text.len() + FRAME_BYTES;
        if at > start && (at - start == MAX_LEXICONS || bytes + more > MAX_BYTES) {
            calls.push(&files[start..at]);
            (start, bytes) = (at, FRAME_BYTES);
        }
        bytes += more;
    }
    if start < files.len() {
        calls.push(&files[start..]);
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use belvedere_protocol::atproto::Nsid;

    #[test]
    fn calls_are_as_few_as_the_limits_allow() {
        let file = |bytes: usize| LexiconFile {
            path: PathBuf::new(),
            id: Nsid::try_from("com.example.thing").unwrap(),
            text: "x".repeat(bytes),
            document: serde_json::Value::Null,
        };
        let sizes = |files: &[&LexiconFile]| calls(files).iter().map(|call| call.len()).collect::<Vec<_>>();
        let (small, large) = (file(10), file(MAX_BYTES / 2));
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&vec![&small; MAX_LEXICONS]), [MAX_LEXICONS]);
        assert_eq!(sizes(&vec![&small; 2 * MAX_LEXICONS + 1]), [MAX_LEXICONS, MAX_LEXICONS, 1]);
        assert_eq!(sizes(&[&small, &large, &large, &small]), [2, 2]);
    }
}
