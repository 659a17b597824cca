//! Validates a script before it is stored.

use super::libraries;
use crate::api::routes;
use crate::api::xrpc::labels::SUBSCRIBE;
use crate::app::App;
use crate::methods::{fixed::FixedMethod, spaces};
use belvedere_instance::lexicons::Snapshot;
use belvedere_instance::xrpc::Verb;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::LexiconKind;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_web::http::Error;

const UPLOAD_BLOB: &str = "com.atproto.repo.uploadBlob";

/// Maximum bytes of a description.
const MAX_DESCRIPTION: usize = 300;

/// Refuses a trigger whose script could never run, because the server itself answers the method.
pub(in crate::api::admin) fn check_trigger(app: &App, trigger: &Trigger) -> Result<(), Error> {
    let verb = match trigger.kind() {
        TriggerKind::Query | TriggerKind::View => Verb::Query,
        TriggerKind::Procedure => Verb::Procedure,
        TriggerKind::Subscription if trigger.subject() == SUBSCRIBE => {
            return Err(Error::bad_request(format!(
                "no script makes the messages of {SUBSCRIBE}: the server sends its labels itself"
            )));
        }
        _ => return Ok(()),
    };
    let (nsid, namespace) = (trigger.subject(), &app.config.auth.service_namespace);
    if Nsid::try_from(nsid).is_ok_and(|nsid| FixedMethod::of(verb, &nsid).is_some()) {
        return match trigger.kind() {
            TriggerKind::View => Err(Error::bad_request(format!(
                "only a script can replace the server's own answer to {nsid}"
            ))),
            _ => Ok(()),
        };
    }
    let why = if nsid == UPLOAD_BLOB {
        "it streams a file to the user's PDS, which no script can hold"
    } else if spaces::is_method(namespace, nsid) {
        "it is a method of spaces"
    } else if nsid == SUBSCRIBE {
        "it is a stream"
    } else if FixedMethod::has_name(nsid) {
        "it is a query"
    } else if routes::has_method(namespace, nsid) {
        "it manages API clients and their keys"
    } else {
        return Ok(());
    };
    Err(Error::bad_request(format!("no script can answer {nsid}: the server answers it itself, and {why}")))
}

/// A warning about a trigger that may have a script, among these lexicons: a kind, and a text for the script's author.
pub(in crate::api::admin) fn unusual(
    lexicons: &Snapshot,
    trigger: &Trigger,
) -> Option<(&'static str, String)> {
    let subject = trigger.subject();
    let (wanted, what) = match trigger.kind() {
        TriggerKind::Query | TriggerKind::View => (LexiconKind::Query, "a query"),
        TriggerKind::Procedure => (LexiconKind::Procedure, "a procedure"),
        TriggerKind::Subscription => (LexiconKind::Subscription, "a subscription"),
        TriggerKind::LabelApply
        | TriggerKind::JobRun
        | TriggerKind::Schedule
        | TriggerKind::Setup
        | TriggerKind::Library => {
            return None;
        }
        _ => (LexiconKind::Record, "a record"),
    };
    if trigger.kind() == TriggerKind::Query && FixedMethod::has_name(subject) {
        let message = format!("the script replaces the server's own answer to {subject}");
        return Some(("replaces_built_in", message));
    }
    match lexicons.get(subject).map(|lexicon| lexicon.kind) {
        Some(kind) if kind == wanted => None,
        None => Some((
            "no_lexicon",
            format!("{subject} has no lexicon here, so the script will not run: upload its lexicon"),
        )),
        Some(_) => Some((
            "kind_mismatch",
            format!("the lexicon {subject} is not that of {what}, so the script will not run"),
        )),
    }
}

/// Loads the script once in a bare sandbox, as every run of it will. Returns the methods that it names.
pub(super) async fn check_source(app: &App, trigger: Trigger, source: &str) -> Result<Vec<String>, Error> {
    let checked = libraries::check(app, trigger, source).await?;
    match checked {
        Ok(checked) => Ok(checked.script.methods().to_vec()),
        Err(failure) => Err(Error::bad_request(format!("the script does not load: {failure}"))),
    }
}

/// The type of the body that a trigger has.
pub(in crate::api::admin) fn type_of(trigger: &Trigger) -> &'static str {
    if trigger.kind() == TriggerKind::View { "view" } else { "lua" }
}

pub(super) fn check_type(trigger: &Trigger, script_type: &str) -> Result<(), Error> {
    let wanted = type_of(trigger);
    if script_type == wanted {
        return Ok(());
    }
    Err(Error::bad_request(format!("script_type must be {wanted}, not {script_type}")))
}

/// An empty description counts as none.
pub(super) fn check_description(description: Option<String>) -> Result<Option<String>, Error> {
    match description {
        Some(text) if text.len() > MAX_DESCRIPTION => {
            Err(Error::bad_request(format!("description is longer than {MAX_DESCRIPTION} bytes")))
        }
        other => Ok(other.filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_limited_and_empty_is_none() {
        assert_eq!(check_description(Some(String::new())).unwrap(), None);
        assert!(check_description(Some("x".repeat(300))).unwrap().is_some());
        assert_eq!(check_description(Some("x".repeat(301))).unwrap_err().status, 400);
    }
}
