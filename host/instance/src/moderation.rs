//! Hides and takes down records and accounts on this instance, for operators and scripts (ADR 127, 132).

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::moderation::{
    self, Action, Decision, Lifted, Moderated, ModerationRow, Subject,
};
use belvedere_storage::store::{Db, StoreError};

use crate::events::{Event, EventLog};

/// Characters of a reason. It is an event, and shown in lists.
const MAX_REASON: usize = 2_000;

/// Decisions that are lifted before others are looked for.
const MAX_AT_ONCE: u32 = 100;

/// The reason in the history of a decision whose time was over.
const EXPIRED: &str = "expired";

/// A decision to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModerationRequest {
    /// The AT URI of a record, or a DID.
    pub subject: String,
    pub action: Action,
    pub reason: String,
    /// `None`: it stays until it is lifted.
    pub expires_at: Option<Timestamp>,
    /// The decision of another author that it may replace, by its id.
    pub replaces: Option<i64>,
}

/// A decision that is in force.
#[derive(Clone, Debug)]
pub struct Made {
    pub row: ModerationRow,
    /// Whether anything changed: the same decision may have been in force already.
    pub is_new: bool,
}

/// The author of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author<'a> {
    Operator(&'a Did),
    /// A script, by its trigger.
    Script(&'a str),
}

impl<'a> Author<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Self::Operator(did) => did.as_str(),
            Self::Script(trigger) => trigger,
        }
    }

    /// The actor and the script of an event.
    fn of_event(author: Option<Self>) -> (Option<String>, Option<String>) {
        match author {
            Some(Self::Operator(did)) => (Some(did.to_string()), None),
            Some(Self::Script(trigger)) => (None, Some(trigger.to_owned())),
            None => (None, None),
        }
    }
}

/// Error for a decision that is not made. The text is for the caller.
#[derive(Debug, thiserror::Error)]
pub enum ModerationError {
    #[error("subject must be the AT URI of a record (at://did/collection/rkey) or a DID")]
    Subject,
    #[error("reason must have 1 to {MAX_REASON} characters, without U+0000")]
    Reason,
    #[error("expires_at must be in the future")]
    Expired,
    #[error("decision {} of {} is in force on it ({}): {}", .0.id, .0.created_by, .0.action.as_str(), .0.reason)]
    InForce(Box<ModerationRow>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes and lifts decisions, each with its event. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Moderator {
    db: Db,
    clock: Clock,
    events: EventLog,
}

impl Moderator {
    pub fn new(db: Db, clock: Clock, events: EventLog) -> Self {
        Self { db, clock, events }
    }

    /// Checks a decision without making it.
    ///
    /// # Errors
    /// See [`ModerationError`].
    pub async fn check(
        &self,
        request: &ModerationRequest,
        author: Author<'_>,
    ) -> Result<(), ModerationError> {
        let now = self.clock.now();
        let decision = decision(request, author.as_str(), now)?;
        match self.active(&decision.subject).await? {
            Some(row) if !decision.may_replace(&row, now) => Err(ModerationError::InForce(Box::new(row))),
            _ => Ok(()),
        }
    }

    /// Makes a decision. It replaces one of the same author, or the one that it names.
    ///
    /// # Errors
    /// See [`ModerationError`].
    pub async fn moderate(
        &self,
        request: &ModerationRequest,
        author: Author<'_>,
    ) -> Result<Made, ModerationError> {
        let now = self.clock.now();
        let decision = decision(request, author.as_str(), now)?;
        let row = match moderation::moderate(&self.db, &decision, now).await? {
            Moderated::Made(row) => row,
            Moderated::Same(row) => return Ok(Made { row, is_new: false }),
            Moderated::Other(row) => return Err(ModerationError::InForce(Box::new(row))),
        };
        let (subject, id) = (row.subject.clone(), row.id);
        let Decision { action, reason, expires_at, .. } = decision;
        let (action, (actor, script)) = (action.as_str(), Author::of_event(Some(author)));
        self.events.record(Event::ModerationCreated {
            actor,
            script,
            subject,
            id,
            action,
            reason,
            expires_at,
        });
        Ok(Made { row, is_new: true })
    }

    /// Lifts a decision. `None` when there is none with this id.
    ///
    /// # Errors
    /// See [`ModerationError`].
    pub async fn lift(
        &self,
        id: i64,
        reason: Option<&str>,
        author: Author<'_>,
    ) -> Result<Option<Lifted>, ModerationError> {
        let reason = reason.map(checked_reason).transpose()?;
        Ok(self.lift_by(id, reason.as_deref(), Some(author)).await?)
    }

    /// The decision in force on a record or an account.
    ///
    /// # Errors
    /// When the database can't be read.
    pub async fn active(&self, subject: &Subject) -> Result<Option<ModerationRow>, StoreError> {
        moderation::active(&self.db, subject).await
    }

    /// Lifts the decisions whose time is over.
    ///
    /// # Errors
    /// When the database can't be read or written.
    pub async fn lift_expired(&self) -> Result<(), StoreError> {
        loop {
            let ids = moderation::expired(&self.db, self.clock.now(), MAX_AT_ONCE).await?;
            for id in &ids {
                self.lift_by(*id, Some(EXPIRED), None).await?;
            }
            if ids.len() < MAX_AT_ONCE as usize {
                return Ok(());
            }
        }
    }

    async fn lift_by(
        &self,
        id: i64,
        reason: Option<&str>,
        author: Option<Author<'_>>,
    ) -> Result<Option<Lifted>, StoreError> {
        let by = author.map(Author::as_str);
        let lifted = moderation::lift(&self.db, id, by, reason, self.clock.now()).await?;
        if let Some(Lifted { row, was_active: true }) = &lifted {
            let ((actor, script), reason) = (Author::of_event(author), reason.map(str::to_owned));
            let subject = row.subject.clone();
            self.events.record(Event::ModerationLifted { actor, script, subject, id, reason });
        }
        Ok(lifted)
    }
}

/// Reads the subject of a decision.
///
/// # Errors
/// [`ModerationError::Subject`].
pub fn parse_subject(text: &str) -> Result<Subject, ModerationError> {
    Subject::parse(text.trim()).ok_or(ModerationError::Subject)
}

/// The reason without blanks around it.
///
/// # Errors
/// [`ModerationError::Reason`].
pub fn checked_reason(text: &str) -> Result<String, ModerationError> {
    let reason = text.trim();
    // PostgreSQL's text can't contain U+0000.
    if reason.is_empty() || reason.chars().count() > MAX_REASON || reason.contains('\0') {
        return Err(ModerationError::Reason);
    }
    Ok(reason.to_owned())
}

fn decision(request: &ModerationRequest, by: &str, now: Timestamp) -> Result<Decision, ModerationError> {
    if request.expires_at.is_some_and(|time| time <= now) {
        return Err(ModerationError::Expired);
    }
    Ok(Decision {
        subject: parse_subject(&request.subject)?,
        action: request.action,
        reason: checked_reason(&request.reason)?,
        by: by.to_owned(),
        expires_at: request.expires_at,
        replaces: request.replaces,
    })
}
