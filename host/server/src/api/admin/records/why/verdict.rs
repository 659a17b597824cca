//! Decides from the facts which cause is the one, and what to do about it.

use super::facts::{Facts, InRepo};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::gaps::OpenGap;
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::moderation::{Action, ModerationRow};
use belvedere_storage::store::status::RepoStatus;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The name in the API.
    pub name: &'static str,
    pub summary: String,
    pub advice: String,
}

fn verdict(name: &'static str, summary: impl Into<String>, advice: impl Into<String>) -> Verdict {
    Verdict { name, summary: summary.into(), advice: advice.into() }
}

impl Facts {
    /// The gap of the stream in which the record was created.
    pub(super) fn gap(&self) -> Option<&OpenGap> {
        let created = self.created_at?;
        self.gaps.iter().find(|gap| gap.from <= created && created <= gap.to)
    }
}

/// The first cause that explains it, in the order of [`super::step::steps`].
pub(super) fn decide(uri: &RecordUri, facts: &Facts) -> Verdict {
    let collection = uri.collection.as_str();
    if let Some(decision) = &facts.moderation {
        return verdict(
            "moderated",
            format!("{} ({})", moderated(decision), decision.reason),
            "It is visible again once the decision is lifted, on the page of moderation.",
        );
    }
    if let Some(status) = facts.account.filter(|status| *status != AccountStatus::Active) {
        let status = status.as_str();
        return verdict(
            "account_hidden",
            format!("The author's account is {status}, so its records are hidden."),
            "They are visible again as soon as the stream says that the account is active.",
        );
    }
    if let Some(found) = &facts.indexed {
        return match &found.invalid_reason {
            Some(reason) => verdict(
                "invalid",
                format!(
                    "The record is indexed, but its lexicon rejects it ({reason}), so queries leave it out."
                ),
                "Correct the record, or upload a lexicon that accepts it: the records are then validated again. Scripts \
                 can ask for invalid records with valid = false.",
            ),
            None => verdict("visible", "The record is indexed, and queries find it.", "Nothing is missing."),
        };
    }
    if !facts.is_tracked {
        return verdict(
            "collection_not_indexed",
            format!("The collection {collection} is not indexed."),
            "Upload its record lexicon, or follow it on the network, with a backfill for the records of the past.",
        );
    }
    if let Some(letter) = facts.letter.as_ref().filter(|letter| letter.resolved_at.is_none()) {
        let (id, script) = (letter.id, &letter.script_ref);
        return verdict(
            "dead_letter",
            format!("The script {script} failed on this record, which waits as dead letter {id}."),
            "Correct the script, then retry the dead letter; or reindex it, without the script.",
        );
    }
    if facts.deleted_at.is_some() && facts.in_repo != InRepo::Present {
        return verdict("deleted", "The record was deleted.", "Nothing can be done: its author deleted it.");
    }
    if facts.in_repo == InRepo::Absent {
        return verdict(
            "not_in_repo",
            "The author's PDS does not have the record.",
            "Check the URI. If it is right, the record was deleted, or never written.",
        );
    }
    if let Some(event) = &facts.rejection {
        return verdict(
            "rejected",
            format!("The server did not take the record {}.", event.created_at),
            "The event says why. The record's author, or its PDS, has to correct it.",
        );
    }
    unseen(uri, facts)
}

/// A sentence without its period.
pub(super) fn moderated(decision: &ModerationRow) -> String {
    let subject = if decision.subject.starts_with("at://") { "The record" } else { "The author's account" };
    let action = match decision.action {
        Action::Hide => "hidden from lists",
        Action::Takedown => "taken down",
    };
    format!("{subject} was {action} here by {} on {}", decision.created_by, decision.created_at)
}

/// The record is probably in the repo, and nothing is stored about it.
fn unseen(uri: &RecordUri, facts: &Facts) -> Verdict {
    let collection = uri.collection.as_str();
    if facts.created_at.is_some_and(|created| facts.cursor.is_none_or(|cursor| created > cursor)) {
        return verdict(
            "stream_behind",
            "The stream has not been read up to the time of the record.",
            "Wait, or look at the overview: it says whether the stream is connected and how far it is behind.",
        );
    }
    if facts.gap().is_some() {
        return verdict(
            "in_gap",
            "The record is of a time from which events of the stream are missing.",
            "The backfill that catches up will read it; start a backfill of the account if none is running.",
        );
    }
    let last = facts.backfills.first();
    if last.is_some_and(|last| last.repo_status == Some(RepoStatus::Failed)) {
        return verdict(
            "backfill_failed",
            "The last backfill could not read the author's repo.",
            "Retry the repos of the backfill that failed.",
        );
    }
    let is_read = facts.backfills.iter().any(|one| is_read_by(one.repo_status, one.completed_at));
    let is_old = match (facts.created_at, facts.tracked_since) {
        (Some(created), Some(since)) => created < since,
        // Without a time it may be.
        _ => true,
    };
    if is_old && !is_read {
        let advice = match last.filter(|last| last.completed_at.is_none()) {
            Some(running) => {
                format!("The backfill {} is {}: wait until it has ended.", running.id, running.status)
            }
            None => format!("Start a backfill of {collection}, or of the author's account."),
        };
        return verdict(
            "not_backfilled",
            "The record is older than the index of its collection, or its age is not known, and no backfill has read it.",
            advice,
        );
    }
    if let Some(script) = &facts.script {
        return verdict(
            "skipped_by_script",
            format!("Most likely the script {script} decided not to index the record."),
            "Run the script on this record (dry run) to see what it decides.",
        );
    }
    verdict(
        "unknown",
        "Nothing explains it.",
        "Start a backfill of the author's account: it reads the repo again. If the record is still missing, look for the \
         account in the event log.",
    )
}

/// Whether a backfill has read the repo. The repos of old backfills are removed; a completed one has read those that the
/// relay listed.
fn is_read_by(repo_status: Option<RepoStatus>, completed_at: Option<Timestamp>) -> bool {
    match repo_status {
        Some(status) => status == RepoStatus::Completed,
        None => completed_at.is_some(),
    }
}
