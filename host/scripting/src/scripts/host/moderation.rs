//! `moderation`: hides and takes down records and accounts on this server, and lifts that.

use std::time::Instant;

use super::state::RunState;
use super::{Refusal, fault};
use crate::scripts::bindings::belvedere::script::moderation::{Action as WitAction, Decision, Host};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::DryWrite;
use belvedere_base::clock::Timestamp;
use belvedere_instance::moderation::{
    Author, ModerationError, ModerationRequest, Moderator, checked_reason, parse_subject,
};
use belvedere_storage::store::moderation::{Action, ModerationRow};

const LIFT: &str = "moderation.lift";
const STATUS: &str = "moderation.status";

impl Host for RunState {
    async fn moderate(
        &mut self,
        subject: String,
        action: WitAction,
        reason: String,
        expires_at: String,
    ) -> Result<bool, Refusal> {
        let (function, action) = match action {
            WitAction::Hide => ("moderation.hide", Action::Hide),
            WitAction::Takedown => ("moderation.takedown", Action::Takedown),
        };
        let expires_at = time(function, &expires_at)?;
        let request = ModerationRequest { subject, action, reason, expires_at, replaces: None };
        Ok(moderate(self, function, &request).await?)
    }

    async fn lift(&mut self, subject: String, reason: String) -> Result<bool, Refusal> {
        Ok(lift(self, &subject, Some(reason).filter(|reason| !reason.is_empty())).await?)
    }

    async fn status(&mut self, subject: String) -> Result<Option<Decision>, Refusal> {
        let moderator = self.database(STATUS, |services| services.moderator.clone())?;
        let row = active(self, STATUS, &moderator, &subject).await?;
        self.count_rows(row.iter().len(), row.as_ref().map_or(0, |row| row.reason.len()))?;
        Ok(row.map(|row| Decision {
            action: match row.action {
                Action::Hide => WitAction::Hide,
                Action::Takedown => WitAction::Takedown,
            },
            reason: row.reason,
            created_by: row.created_by,
            created_at: row.created_at.to_string(),
            expires_at: row.expires_at.map(|time| time.to_string()),
        }))
    }
}

async fn moderate(
    state: &mut RunState,
    function: &'static str,
    request: &ModerationRequest,
) -> Result<bool, Fault> {
    let moderator = changing(state, function)?;
    if let Some(dry_run) = state.dry_run().cloned() {
        let started = Instant::now();
        let checked = moderator.check(request, Author::Script(&state.info.trigger)).await;
        state.spend_on_database(started.elapsed());
        checked.map_err(|error| refused(function, &error))?;
        let ModerationRequest { subject, action, reason, expires_at, .. } = request;
        let (action, expires_at) = (action.as_str(), expires_at.map(|time| time.to_string()));
        dry_run.write(&DryWrite::ModerationCreate { subject, action, reason, expires_at });
        return Ok(true);
    }
    let started = Instant::now();
    let made = moderator.moderate(request, Author::Script(&state.info.trigger)).await;
    state.spend_on_database(started.elapsed());
    let is_new = made.map_err(|error| refused(function, &error))?.is_new;
    if is_new {
        state.announce_change().await;
    }
    Ok(is_new)
}

async fn lift(state: &mut RunState, subject: &str, reason: Option<String>) -> Result<bool, Fault> {
    let moderator = changing(state, LIFT)?;
    let reason = reason.as_deref().map(checked_reason).transpose().map_err(|error| refused(LIFT, &error))?;
    let Some(row) = active(state, LIFT, &moderator, subject).await? else { return Ok(false) };
    if let Some(dry_run) = state.dry_run() {
        dry_run.write(&DryWrite::ModerationLift { subject: &row.subject, reason: reason.as_deref() });
        return Ok(true);
    }
    let started = Instant::now();
    let lifted = moderator.lift(row.id, reason.as_deref(), Author::Script(&state.info.trigger)).await;
    state.spend_on_database(started.elapsed());
    let was_active = lifted.map_err(|error| refused(LIFT, &error))?.is_some_and(|lifted| lifted.was_active);
    if was_active {
        state.announce_change().await;
    }
    Ok(was_active)
}

/// Counts a call that moderates, as a write of a record.
fn changing(state: &mut RunState, function: &str) -> Result<Moderator, Fault> {
    let moderator = state.database(function, |services| services.moderator.clone())?;
    state.may_change(function)?;
    state.writes.add(1, 0)?;
    Ok(moderator)
}

async fn active(
    state: &mut RunState,
    function: &'static str,
    moderator: &Moderator,
    subject: &str,
) -> Result<Option<ModerationRow>, Fault> {
    let subject = parse_subject(subject).map_err(|error| refused(function, &error))?;
    let started = Instant::now();
    let found = moderator.active(&subject).await;
    state.spend_on_database(started.elapsed());
    found.map_err(|error| refused(function, &error.into()))
}

/// Reads the time at which a decision is lifted; an empty text is none.
fn time(function: &str, text: &str) -> Result<Option<Timestamp>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    let bad = |_| fault::new(FaultCode::BadInput, format!("{function}: expires_at is not a time"));
    Timestamp::parse(text).map(Some).map_err(bad)
}

fn refused(function: &'static str, error: &ModerationError) -> Fault {
    match error {
        ModerationError::Subject
        | ModerationError::Reason
        | ModerationError::Expired
        | ModerationError::InForce(_) => fault::new(FaultCode::BadInput, format!("{function}: {error}")),
        ModerationError::Store(cause) => fault::database(function, cause),
    }
}
