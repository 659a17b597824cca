//! The body of an upload or a preview: one lexicon, or several.

use std::collections::HashMap;
use std::fmt;

use http::StatusCode;
use schemars::JsonSchema;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::lexicons::ProcedureAction;
use belvedere_protocol::atproto::lexicon::{LexiconDoc, LexiconError, LexiconKind};
use belvedere_storage::store::lexicons::{LexiconSetting, MANUAL, NewLexicon};
use belvedere_web::http::{Error, Request, limits};

use super::InvalidTarget;

/// Lexicons of one call: twice those that are known on the network.
pub const MAX_LEXICONS: usize = 2_000;

/// Bytes of a call: [`MAX_LEXICONS`] of twice the average size.
pub const MAX_BYTES: usize = 8 << 20;

/// Bytes of one lexicon, alone or among others.
const MAX_LEXICON_BYTES: usize = limits::JSON_BODY;

/// Invalid lexicons that an error names. The others are counted.
const MAX_NAMED: usize = 20;

/// Bytes of the reason for each.
const MAX_REASON_BYTES: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewLexicon")]
pub struct LexiconUpload {
    /// Kept verbatim: the lexicon is shown as it was uploaded.
    lexicon_json: Box<RawValue>,
    /// True when absent. Only of a record lexicon's first upload.
    backfill: Option<bool>,
    target_collection: Option<String>,
    token_cost: Option<i64>,
    /// The write that a procedure without a script does.
    action: Option<ProcedureAction>,
    /// The revision that it replaces, 0 for a lexicon that is new: 409 if there is another. Absent: it replaces whichever there is.
    revision: Option<u32>,
}

#[derive(Debug, JsonSchema)]
pub struct SeveralLexicons {
    /// At most 2,000, each with another id.
    #[expect(dead_code, reason = "the description of the API")]
    lexicons: Vec<LexiconUpload>,
    /// Whether settings that an element does not have stay as they are if its lexicon is stored already. False when absent:
    /// then they get their defaults.
    #[expect(dead_code, reason = "the description of the API")]
    keep_settings: Option<bool>,
}

/// One lexicon, or several.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum LexiconUploads {
    One(LexiconUpload),
    Several(SeveralLexicons),
}

/// The body as it is read: each element for itself, so that an error names it.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    lexicons: Option<Elements<'a>>,
    keep_settings: Option<bool>,
}

/// The first [`MAX_LEXICONS`] elements of a list, and the number of all, so that a list of millions takes no memory.
pub(in crate::api::admin) struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

impl Elements<'_> {
    /// Their length.
    pub(in crate::api::admin) fn bytes(&self) -> usize {
        self.first.iter().map(|element| element.get().len()).sum()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = Elements<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of lexicons")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Elements<'de>, A::Error> {
        let mut first = Vec::new();
        while first.len() < MAX_LEXICONS
            && let Some(element) = list.next_element()?
        {
            first.push(element);
        }
        let mut count = first.len();
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Elements { first, count })
    }
}

/// The reason why an upload is invalid.
#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error("{0}")]
    Fields(serde_json::Error),
    #[error("lexicon_json is larger than {MAX_LEXICON_BYTES} bytes")]
    Size,
    #[error("lexicon_json is not JSON: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Document(#[from] LexiconError),
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    #[error("token_cost must be 0 or more and at most {max}", max = u32::MAX)]
    TokenCost,
    #[error("lexicons[{0}] has the same id")]
    Duplicate(usize),
}

/// An invalid lexicon of a call.
#[derive(Debug)]
pub(in crate::api::admin) struct InvalidUpload {
    /// If the document has one.
    pub(super) id: Option<String>,
    pub(super) reason: String,
}

/// The lexicons of a call.
pub(in crate::api::admin) struct Uploads {
    /// Whether the body is a list, though it may be one of one lexicon.
    pub(super) is_list: bool,
    pub(super) lexicons: Vec<Result<NewLexicon, InvalidUpload>>,
}

impl Uploads {
    /// # Errors
    /// 400 when the body is not one of [`LexiconUploads`], or a list of too many; 413 when a single lexicon is too large. Invalid
    /// elements of a list are no error here.
    pub(super) fn read(request: &Request) -> Result<Self, Error> {
        hand_over_thread(request.body.len(), || Self::parse(request))
    }

    fn parse(request: &Request) -> Result<Self, Error> {
        let body = serde_json::from_slice(&request.body);
        let Body { lexicons, keep_settings } =
            body.map_err(|error| Error::bad_request(format!("invalid request body: {error}")))?;
        let Some(Elements { first: list, count }) = lexicons else {
            if request.body.len() > limits::JSON_BODY {
                let text = format!("the request body is larger than {} bytes", limits::JSON_BODY);
                return Err(Error::new(StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            let lexicon = check(&request.json()?, false);
            return Ok(Self { is_list: false, lexicons: vec![lexicon] });
        };
        Self::of_list(Elements { first: list, count }, keep_settings.unwrap_or(false))
    }

    /// # Errors
    /// 400 for a list of too many. Invalid elements are no error here.
    pub(in crate::api::admin) fn of_list(
        Elements { first: list, count }: Elements<'_>,
        keeps_settings: bool,
    ) -> Result<Self, Error> {
        if count > MAX_LEXICONS {
            let text = format!("at most {MAX_LEXICONS} lexicons fit in one call; this one has {count}");
            return Err(Error::bad_request(text));
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        let lexicons = list.iter().enumerate().map(|(at, element)| {
            let upload = serde_json::from_str(element.get());
            let lexicon = check(&upload.map_err(|error| Invalid::Fields(error).of(None))?, keeps_settings)?;
            if let Some(other) = places.get(&lexicon.id) {
                return Err(Invalid::Duplicate(*other).of(Some(lexicon.id)));
            }
            places.insert(lexicon.id.clone(), at);
            Ok(lexicon)
        });
        Ok(Self { is_list: true, lexicons: lexicons.collect() })
    }

    /// The lexicons, if all are valid.
    ///
    /// # Errors
    /// 400 that names each invalid lexicon of a list.
    pub(in crate::api::admin) fn all_valid(self) -> Result<Vec<NewLexicon>, Error> {
        let count = self.lexicons.len();
        let (mut valid, mut invalid) = (Vec::with_capacity(count), Vec::new());
        for (at, lexicon) in self.lexicons.into_iter().enumerate() {
            match lexicon {
                Ok(lexicon) => valid.push(lexicon),
                Err(error) if !self.is_list => return Err(Error::bad_request(error.reason)),
                Err(error) => invalid.push(error.named(at)),
            }
        }
        if invalid.is_empty() {
            return Ok(valid);
        }
        Err(refused(("lexicon", count), ("is invalid", "are invalid"), invalid))
    }
}

/// The error for a call of `count` elements, of which nothing was stored because of these.
pub(in crate::api::admin) fn refused(
    (what, count): (&str, usize),
    (is, are): (&str, &str),
    mut reasons: Vec<String>,
) -> Error {
    let are = if reasons.len() == 1 { is } else { are };
    let start = format!("{} of {count} {what}s {are}, so none was stored: ", reasons.len());
    let left_out = reasons.len().saturating_sub(MAX_NAMED);
    let more = if left_out > 0 { format!("; and {left_out} more") } else { String::new() };
    reasons.truncate(MAX_NAMED);
    for reason in &mut reasons {
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    }
    Error::bad_request(format!("{start}{}{more}", reasons.join("; ")))
}

impl Invalid {
    fn of(&self, id: Option<String>) -> InvalidUpload {
        InvalidUpload { id, reason: self.to_string() }
    }
}

impl InvalidUpload {
    fn named(self, at: usize) -> String {
        match self.id {
            Some(id) => format!("lexicons[{at}] ({id}): {}", self.reason),
            None => format!("lexicons[{at}]: {}", self.reason),
        }
    }
}

fn check(upload: &LexiconUpload, keeps_settings: bool) -> Result<NewLexicon, InvalidUpload> {
    let text = upload.lexicon_json.get();
    if text.len() > MAX_LEXICON_BYTES {
        return Err(Invalid::Size.of(None));
    }
    let document: Value = serde_json::from_str(text).map_err(|error| Invalid::Json(error).of(None))?;
    check_document(upload, &document, keeps_settings).map_err(|invalid| {
        let id = document.get("id").and_then(Value::as_str);
        invalid.of(id.map(|id| id[..id.floor_char_boundary(MAX_REASON_BYTES)].to_owned()))
    })
}

fn check_document(
    upload: &LexiconUpload,
    document: &Value,
    keeps_settings: bool,
) -> Result<NewLexicon, Invalid> {
    let document = LexiconDoc::parse(document)?;
    let target_collection = super::target_collection(upload.target_collection.as_deref(), document.kind)?;
    if upload.token_cost.is_some_and(|cost| u32::try_from(cost).is_err()) {
        return Err(Invalid::TokenCost);
    }
    let absent = [
        // An existing lexicon has had its first upload.
        (LexiconSetting::Backfill, true),
        (LexiconSetting::Action, upload.action.is_none()),
        (LexiconSetting::TargetCollection, upload.target_collection.is_none()),
        (LexiconSetting::TokenCost, upload.token_cost.is_none()),
    ];
    let kept = absent.into_iter().filter(|(_, is_absent)| keeps_settings && *is_absent);
    Ok(NewLexicon {
        id: document.id.as_str().to_owned(),
        lexicon_type: document.kind.as_str().to_owned(),
        lexicon_json: upload.lexicon_json.get().to_owned(),
        backfill: upload.backfill.unwrap_or(true) && document.kind == LexiconKind::Record,
        // Without one the store keeps none, and the default applies.
        action: upload
            .action
            .filter(|action| *action != ProcedureAction::default())
            .map(|action| action.as_str().to_owned()),
        target_collection,
        source: MANUAL.to_owned(),
        token_cost: upload.token_cost,
        kept: kept.map(|(setting, _)| setting).collect(),
        based_on: upload.revision.map(i64::from),
        ..NewLexicon::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn element(more: Value) -> Value {
        let mut all = json!({ "lexicon_json": {
            "lexicon": 1, "id": "com.example.list",
            "defs": { "main": { "type": "query", "output": { "encoding": "application/json" } } },
        }});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    fn checked(more: Value, keeps_settings: bool) -> Result<NewLexicon, InvalidUpload> {
        check(&serde_json::from_str(&element(more).to_string()).unwrap(), keeps_settings)
    }

    #[test]
    fn keeps_the_fields_of_the_specification() {
        let fields = json!({ "target_collection": "com.example.note", "token_cost": 5 });
        let lexicon = checked(fields, false).unwrap();
        assert_eq!(lexicon.id, "com.example.list");
        assert_eq!(lexicon.lexicon_type, "query");
        assert_eq!(lexicon.target_collection.as_deref(), Some("com.example.note"));
        assert_eq!(lexicon.token_cost, Some(5));
        assert!(!lexicon.backfill, "only records are backfilled");
        assert_eq!(lexicon.kept, []);
    }

    #[test]
    fn absent_settings_are_kept_and_given_ones_are_not() {
        let all = [LexiconSetting::Backfill, LexiconSetting::Action, LexiconSetting::TargetCollection];
        let lexicon = checked(json!({ "token_cost": 5, "action": null }), true).unwrap();
        assert_eq!(lexicon.kept, all);
        // An empty target is none, and the default action is stored as none.
        let given = json!({ "token_cost": 0, "action": "upsert", "target_collection": "" });
        let lexicon = checked(given, true).unwrap();
        assert_eq!(
            (lexicon.kept, lexicon.action, lexicon.target_collection),
            (all[..1].to_vec(), None, None)
        );
    }

    #[test]
    fn names_the_invalid_field() {
        for (more, text) in [
            (json!({ "target_collection": "nope" }), "target_collection is not an NSID"),
            (json!({ "token_cost": -1 }), "token_cost"),
            (json!({ "lexicon_json": { "lexicon": 2, "id": "com.example.a", "defs": {} } }), "lexicon"),
            (json!({ "lexicon_json": "x".repeat(MAX_LEXICON_BYTES) }), "larger than 1048576 bytes"),
        ] {
            let error = checked(more, false).err().unwrap().reason;
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn an_error_names_each_invalid_lexicon_up_to_a_limit() {
        let invalid = |at: usize| InvalidUpload {
            id: at.is_multiple_of(2).then(|| format!("com.example.l{at}")),
            reason: "é".repeat(MAX_REASON_BYTES),
        };
        let lexicons = (0..30).map(|at| Err(invalid(at))).collect();
        let error = Uploads { is_list: true, lexicons }.all_valid().unwrap_err().error;
        assert!(error.starts_with(
            "30 of 30 lexicons are invalid, so none was stored: lexicons[0] (com.example.l0): é"
        ));
        assert!(error.contains("; lexicons[19]: é") && error.ends_with("; and 10 more"), "{error}");
        assert!(error.len() < MAX_NAMED * (MAX_REASON_BYTES + 50), "{}", error.len());
    }
}
