//! The steps of the search, in the order in which an operator would look.

use schemars::JsonSchema;
use serde::Serialize;

use super::facts::{Facts, InRepo};
use super::verdict::moderated;
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::status::RepoStatus;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhyStep {
    #[schemars(extend("enum" = [
        "collection", "moderation", "account", "index", "lexicon", "deleted", "dead_letter", "rejected", "repo", "stream",
        "backfill", "script"
    ]))]
    id: &'static str,
    #[schemars(extend("enum" = ["ok", "problem", "unknown", "info"]))]
    outcome: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<WhyLink>,
}

/// The page that the dashboard opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WhyLink {
    #[schemars(extend("enum" = ["dead_letter", "backfill", "script", "lexicon", "event"]))]
    kind: &'static str,
    id: String,
}

const OK: &str = "ok";
const PROBLEM: &str = "problem";
const UNKNOWN: &str = "unknown";
const INFO: &str = "info";

fn step(id: &'static str, outcome: &'static str, text: impl Into<String>) -> WhyStep {
    WhyStep { id, outcome, text: text.into(), link: None }
}

impl WhyStep {
    fn linked(self, kind: &'static str, id: impl Into<String>) -> Self {
        Self { link: Some(WhyLink { kind, id: id.into() }), ..self }
    }
}

/// The steps that apply.
pub(super) fn steps(uri: &RecordUri, facts: &Facts) -> Vec<WhyStep> {
    let all = [
        Some(collection(uri, facts)),
        moderation(facts),
        account(facts),
        Some(index(facts)),
        lexicon(uri, facts),
        deleted(facts),
        letter(facts),
        rejection(facts),
        repo(facts),
        stream(facts),
        gap(facts),
        backfill(facts),
        script(facts),
    ];
    all.into_iter().flatten().collect()
}

fn collection(uri: &RecordUri, facts: &Facts) -> WhyStep {
    let name = uri.collection.as_str();
    if facts.is_tracked {
        step("collection", OK, format!("The collection {name} is indexed.")).linked("lexicon", name)
    } else {
        let text = format!("The collection {name} is not indexed: no record lexicon of it is uploaded.");
        step("collection", PROBLEM, text)
    }
}

fn moderation(facts: &Facts) -> Option<WhyStep> {
    let decision = facts.moderation.as_ref()?;
    Some(step("moderation", PROBLEM, format!("{}: {}", moderated(decision), decision.reason)))
}

fn account(facts: &Facts) -> Option<WhyStep> {
    Some(match facts.account? {
        AccountStatus::Active => step("account", OK, "The author's account is active."),
        status => {
            let status = status.as_str();
            step("account", PROBLEM, format!("The author's account is {status}, so its records are hidden."))
        }
    })
}

fn index(facts: &Facts) -> WhyStep {
    match &facts.indexed {
        Some(found) => step(
            "index",
            OK,
            format!(
                "The index has the record since {}; it was last changed {}.",
                found.indexed_at, found.updated_at
            ),
        ),
        None => step("index", PROBLEM, "The index does not have the record."),
    }
}

fn lexicon(uri: &RecordUri, facts: &Facts) -> Option<WhyStep> {
    let found = facts.indexed.as_ref()?;
    let step = match &found.invalid_reason {
        None => step("lexicon", OK, "The lexicon of its collection accepts it."),
        Some(reason) => {
            step("lexicon", PROBLEM, format!("The lexicon of its collection rejects it: {reason}."))
        }
    };
    Some(step.linked("lexicon", uri.collection.as_str()))
}

fn deleted(facts: &Facts) -> Option<WhyStep> {
    let at = facts.deleted_at?;
    Some(step("deleted", PROBLEM, format!("The stream said {at} that the record was deleted.")))
}

fn letter(facts: &Facts) -> Option<WhyStep> {
    let letter = facts.letter.as_ref()?;
    let (id, at, error) = (letter.id.to_string(), letter.created_at, &letter.error);
    let step = match letter.resolved_at {
        None => step("dead_letter", PROBLEM, format!("Dead letter {id} of {at} waits: {error}")),
        Some(resolved) => {
            step("dead_letter", INFO, format!("Dead letter {id} of {at} was resolved {resolved}: {error}"))
        }
    };
    Some(step.linked("dead_letter", id))
}

fn rejection(facts: &Facts) -> Option<WhyStep> {
    let event = facts.rejection.as_ref()?;
    let text = format!("The server did not take the record {}: {}", event.created_at, event.detail);
    Some(step("rejected", PROBLEM, text).linked("event", &event.id))
}

fn repo(facts: &Facts) -> Option<WhyStep> {
    Some(match &facts.in_repo {
        InRepo::NotAsked => return None,
        InRepo::Present => step("repo", OK, "The author's PDS has the record."),
        InRepo::Absent => step("repo", PROBLEM, "The author's PDS does not have the record."),
        InRepo::Unknown(why) => step("repo", UNKNOWN, format!("The author's PDS could not be asked: {why}.")),
    })
}

fn stream(facts: &Facts) -> Option<WhyStep> {
    if facts.indexed.is_some() {
        return None;
    }
    let Some(cursor) = facts.cursor else {
        return Some(step("stream", UNKNOWN, "Nothing has been read from the stream yet."));
    };
    Some(match facts.created_at {
        Some(created) if created > cursor => step(
            "stream",
            PROBLEM,
            format!("The stream has been read up to {cursor}; the record is of {created}."),
        ),
        _ => step("stream", OK, format!("The stream has been read up to {cursor}.")),
    })
}

fn gap(facts: &Facts) -> Option<WhyStep> {
    let gap = facts.gap()?;
    let text = format!("Events of the stream from {} to {} may be missing.", gap.from, gap.to);
    let step = step("stream", PROBLEM, text);
    Some(match &gap.job {
        Some(job) => step.linked("backfill", job),
        None => step,
    })
}

fn backfill(facts: &Facts) -> Option<WhyStep> {
    if facts.indexed.is_some() {
        return None;
    }
    let Some(last) = facts.backfills.first() else {
        return Some(step("backfill", INFO, "No backfill has read the collection."));
    };
    let (at, status) = (last.created_at, last.status);
    let step = match (last.repo_status, &last.repo_error) {
        (Some(RepoStatus::Failed), error) => {
            let error = error.as_deref().unwrap_or("for an unknown reason");
            step("backfill", PROBLEM, format!("The backfill of {at} could not read the repo: {error}"))
        }
        (Some(RepoStatus::Completed), _) => {
            step("backfill", OK, format!("The backfill of {at} has read the repo."))
        }
        (Some(_), _) => step("backfill", INFO, format!("The backfill of {at} has not read the repo yet.")),
        (None, _) => {
            step("backfill", INFO, format!("The last backfill of the collection began {at}: {status}."))
        }
    };
    Some(step.linked("backfill", &last.id))
}

fn script(facts: &Facts) -> Option<WhyStep> {
    let script = facts.script.as_ref()?;
    let text = format!("The script {script} decides which records are indexed, and how.");
    Some(step("script", INFO, text).linked("script", script))
}
