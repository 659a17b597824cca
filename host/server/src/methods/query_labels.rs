//! `com.atproto.label.queryLabels`: the labels of this instance, once it has a DID and a key for them (ADR 128).

use http::StatusCode;
use serde_json::{Value, json};

use crate::app::App;
use belvedere_instance::labels::Signed;
use belvedere_instance::service_identity::Labeler;
use belvedere_instance::xrpc::{Answer, Call, Verb};
use belvedere_storage::store::issued_labels::latest::{LatestLabels, Pattern, latest};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

pub const NSID: &str = "com.atproto.label.queryLabels";

/// Patterns and sources of one call. Each pattern is a range of an index.
const MAX_PATTERNS: usize = 50;

/// Labels of an answer, as in the lexicon.
const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 250;

/// The parameters of a call.
struct Query {
    patterns: Vec<Pattern>,
    sources: Vec<String>,
    limit: u32,
    cursor: Option<i64>,
}

/// The instance as a labeler.
///
/// # Errors
/// 501 when it is none.
pub fn labeler(app: &App) -> Result<Labeler, Error> {
    app.service_identity.labeler().ok_or_else(|| {
        Error::new(
            StatusCode::NOT_IMPLEMENTED,
            "this server issues no labels: it has no public DID with a key #atproto_label",
        )
    })
}

/// Whether a query of labels is answered here. With an uploaded lexicon it is a method as others, of a script or a view; without labels
/// of this instance, a call with a session goes to its PDS.
pub fn is_own(app: &App, has_session: bool) -> bool {
    app.registry.get(NSID).is_none() && (!has_session || app.service_identity.labeler().is_some())
}

/// Whether a script's call is answered here.
pub(super) fn is_call(app: &App, call: &Call) -> bool {
    call.verb == Verb::Query && call.nsid.as_str() == NSID && is_own(app, true)
}

/// Answers a call with these parameters.
///
/// # Errors
/// 400 for wrong parameters, 501 without labels of this instance.
pub async fn answer(app: &App, tenant: &Tenant, params: &[(String, String)]) -> Result<Answer, Error> {
    let query = Query::read(params)?;
    let labeler = labeler(app)?;
    let own = labeler.did.as_str();
    let found = if query.sources.is_empty() || query.sources.iter().any(|source| source == own) {
        let found = latest(&app.db, own, &query.patterns, (query.cursor, query.limit), tenant).await?;
        found.ok_or_else(bad_cursor)?
    } else {
        LatestLabels::default()
    };
    let labels: Vec<Value> = found.labels.iter().map(|issued| Signed::new(&labeler, issued).json()).collect();
    let mut body = json!({ "labels": labels });
    if let Some(next) = found.next {
        body["cursor"] = next.to_string().into();
    }
    Ok(Answer::json(StatusCode::OK, body.to_string().into()))
}

impl Query {
    fn read(params: &[(String, String)]) -> Result<Self, Error> {
        let mut query =
            Self { patterns: Vec::new(), sources: Vec::new(), limit: DEFAULT_LIMIT, cursor: None };
        for (name, value) in params {
            match name.as_str() {
                "uriPatterns" => query.patterns.push(pattern(value)?),
                "sources" => query.sources.push(value.clone()),
                "limit" => query.limit = limit(value)?,
                "cursor" => query.cursor = cursor(value)?,
                _ => {}
            }
        }
        if query.patterns.is_empty() {
            return Err(Error::bad_request(
                "uriPatterns is missing: a URI, or the beginning of some with * at its end",
            ));
        }
        if query.patterns.len() > MAX_PATTERNS || query.sources.len() > MAX_PATTERNS {
            return Err(Error::bad_request(format!("at most {MAX_PATTERNS} uriPatterns and sources")));
        }
        Ok(query)
    }
}

/// A URI, or the beginning of URIs with `*` at its end.
fn pattern(text: &str) -> Result<Pattern, Error> {
    let pattern = match text.strip_suffix('*') {
        Some(prefix) => Pattern::Prefix(prefix.to_owned()),
        None => Pattern::Exact(text.to_owned()),
    };
    let (Pattern::Prefix(fixed) | Pattern::Exact(fixed)) = &pattern;
    if fixed.contains('*') || fixed.contains(char::is_control) {
        return Err(Error::bad_request("uriPatterns has URIs or beginnings of some: a * is only at the end"));
    }
    Ok(pattern)
}

fn limit(text: &str) -> Result<u32, Error> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| Error::bad_request(format!("limit must be a number from 1 to {MAX_LIMIT}")))
}

/// The cursor; an empty one, and 0, are none.
fn cursor(text: &str) -> Result<Option<i64>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let cursor: Option<i64> = text.parse().ok().filter(|cursor| *cursor >= 0);
    cursor.ok_or_else(bad_cursor).map(|cursor| Some(cursor).filter(|cursor| *cursor > 0))
}

fn bad_cursor() -> Error {
    Error::bad_request("cursor must be the cursor of an earlier answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_at_the_end() {
        assert_eq!(pattern("at://did:plc:a/*").unwrap(), Pattern::Prefix("at://did:plc:a/".to_owned()));
        assert_eq!(pattern("did:plc:a").unwrap(), Pattern::Exact("did:plc:a".to_owned()));
        assert_eq!(pattern("*").unwrap(), Pattern::Prefix(String::new()));
        assert!(pattern("at://*/a").is_err() && pattern("**").is_err() && pattern("a\0").is_err());
        assert!(limit("0").is_err() && limit("251").is_err() && limit("250").is_ok());
        assert!(cursor("-1").is_err() && cursor("x").is_err() && cursor("0").is_ok());
    }
}
