//! Shows operators the records of spaces, which nothing else does: for a limited time, with a reason, and never without a trace.
//!
//! The setting [`INSPECTOR`] must be on, and a grant for the space or the account in force. Grants, their ends and every read are
//! events, which are stored before the answer: without a stored event nothing is shown.

use super::{SpaceError, Spaces};
use crate::config::INSPECTOR;
use crate::events::Event;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::{SpaceRecordUri, SpaceUri};
use belvedere_storage::store::spaces::inspections::{self, InspectionRow, Scope};
use belvedere_storage::store::spaces::lists::{self, List, Place};
use belvedere_storage::store::spaces::records::{self, Authors, PAGE_BYTES, SpaceRecord};
use belvedere_storage::store::spaces::space;

/// Characters of a reason (spaces.md §5.3).
const MAX_REASON: usize = 2_000;
/// Seconds of a grant: a minute to a day. An investigation that takes longer says again why.
const SECONDS: std::ops::RangeInclusive<i64> = 60..=86_400;

/// The subject of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Space(SpaceUri),
    /// In all spaces, also while the account is not active.
    Account(Did),
}

impl Subject {
    fn columns(&self) -> (Scope, String) {
        match self {
            Self::Space(uri) => (Scope::Space, uri.to_string()),
            Self::Account(did) => (Scope::Account, did.to_string()),
        }
    }
}

/// A grant to make.
#[derive(Clone, Debug)]
pub struct InspectionRequest {
    pub subject: Subject,
    /// The operator who may read.
    pub operator: Did,
    pub reason: String,
    pub seconds: i64,
}

/// A record that an inspection shows, with its address.
pub type Inspected = (SpaceRecordUri, SpaceRecord);

/// A page of an inspection.
#[derive(Debug)]
pub struct InspectedPage {
    pub records: Vec<Inspected>,
    pub has_more: bool,
}

/// An operator at an instance where inspections are switched on.
#[derive(Debug)]
pub struct Inspector {
    spaces: Spaces,
    operator: Did,
}

impl Spaces {
    /// The only way to an [`Inspector`].
    ///
    /// # Errors
    /// [`SpaceError::InspectorDisabled`]
    pub fn inspector(&self, operator: Did) -> Result<Inspector, SpaceError> {
        if !self.0.settings.flag(&INSPECTOR.key()) {
            return Err(SpaceError::InspectorDisabled);
        }
        Ok(Inspector { spaces: self.clone(), operator })
    }

    /// Revokes a grant.
    ///
    /// # Errors
    /// 404 when there is no such grant.
    pub async fn revoke_inspection(&self, by: &Did, id: &str) -> Result<(), SpaceError> {
        let core = self.core();
        let revoked = inspections::revoke(&core.db, id, core.clock.now()).await?;
        let InspectionRow { id, subject, operator, .. } =
            revoked.ok_or(SpaceError::NotFound("there is no such inspection"))?;
        let event = Event::SpaceInspectionRevoked { actor: by.to_string(), operator, subject, id };
        Ok(core.events.store(&core.db, event).await?)
    }

    /// A page of all grants, newest first. `before`: time and id of the last one of the page before.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn inspections(
        &self,
        before: Option<(Timestamp, &str)>,
        limit: u32,
    ) -> Result<Vec<InspectionRow>, SpaceError> {
        Ok(inspections::page(&self.core().db, before, limit).await?)
    }
}

impl Inspector {
    /// Grants an inspection, to this operator or to another one.
    ///
    /// # Errors
    /// 400 without a reason, or for a longer time; [`SpaceError::NoSpace`].
    pub async fn grant(&self, request: InspectionRequest) -> Result<InspectionRow, SpaceError> {
        let core = self.spaces.core();
        let (reason, now) = (request.reason.trim().to_owned(), core.clock.now());
        if !(1..=MAX_REASON).contains(&reason.chars().count()) {
            return Err(SpaceError::Invalid(format!("reason must have 1 to {MAX_REASON} characters")));
        }
        if !SECONDS.contains(&request.seconds) {
            let (least, most) = SECONDS.into_inner();
            return Err(SpaceError::Invalid(format!("expires_in must be {least} to {most} seconds")));
        }
        if let Subject::Space(uri) = &request.subject {
            self.spaces.find(uri).await?;
        }
        let (scope, subject) = request.subject.columns();
        let grant = InspectionRow {
            id: core.random.uuid(),
            scope,
            subject,
            operator: request.operator.to_string(),
            reason,
            granted_by: self.operator.to_string(),
            created_at: now,
            expires_at: now.plus_seconds(request.seconds),
            revoked_at: None,
        };
        // The event comes first: a grant that fails afterwards shows nothing.
        let event = Event::SpaceInspectionGranted {
            actor: grant.granted_by.clone(),
            operator: grant.operator.clone(),
            subject: grant.subject.clone(),
            id: grant.id.clone(),
            reason: grant.reason.clone(),
            expires_at: grant.expires_at,
        };
        core.events.store(&core.db, event).await?;
        inspections::grant(&core.db, &grant).await?;
        Ok(grant)
    }

    /// A page of the records of a space, of one author or of all whose accounts are active. `after`: the last one of the page
    /// before. A grant for the space does not show an account that is not active; one for the account does.
    ///
    /// # Errors
    /// [`SpaceError::GrantRequired`]
    pub async fn in_space(
        &self,
        uri: &SpaceUri,
        repo: Option<&Did>,
        after: Option<SpaceRecordUri>,
        limit: u32,
    ) -> Result<InspectedPage, SpaceError> {
        let db = &self.spaces.core().db;
        let of_repo = match repo {
            Some(repo) => self.in_force(&Subject::Account(repo.clone())).await?,
            None => None,
        };
        let may_be_shown = match repo {
            Some(repo) => !records::is_hidden(db, repo).await?,
            None => true,
        };
        let of_space = self.in_force(&Subject::Space(uri.clone())).await?.filter(|_| may_be_shown);
        let grant = of_repo.or(of_space).ok_or(SpaceError::GrantRequired)?;
        let space = self.spaces.find(uri).await?.id;
        let authors = repo.map_or(Authors::All, Authors::One);
        let after = after.map(|SpaceRecordUri { path, author, .. }| Place { path, author });
        let list = List {
            authors,
            collection: None,
            is_reverse: false,
            with_text: true,
            after: after.as_ref(),
            limit,
            max_bytes: PAGE_BYTES,
        };
        let page = lists::page(db, space, &list).await?;
        let address = |record: &SpaceRecord| uri.record(record.author.clone(), record.path.clone());
        let records = page.records.into_iter().map(|record| (address(&record), record)).collect();
        self.show(grant, records, page.next.is_some()).await
    }

    /// A page of the records of an account in all spaces.
    ///
    /// # Errors
    /// [`SpaceError::GrantRequired`]
    pub async fn of_account(
        &self,
        did: &Did,
        after: Option<SpaceRecordUri>,
        limit: u32,
    ) -> Result<InspectedPage, SpaceError> {
        let db = &self.spaces.core().db;
        let grant = self.in_force(&Subject::Account(did.clone())).await?.ok_or(SpaceError::GrantRequired)?;
        let space = self.spaces.position(after.as_ref().map(|after| &after.space)).await?;
        let after = space.zip(after.as_ref().map(|after| &after.path));
        let mut shown: Vec<Inspected> = Vec::new();
        let mut known = None;
        let (found, has_more) = records::of_author(db, did, after, limit).await?;
        for (space, record) in found {
            let uri = match known.take() {
                Some((id, uri)) if id == space => uri,
                _ => space::by_id(db, space).await?.ok_or(SpaceError::NoSpace)?.uri,
            };
            shown.push((uri.record(record.author.clone(), record.path.clone()), record));
            known = Some((space, uri));
        }
        self.show(grant, shown, has_more).await
    }

    async fn in_force(&self, subject: &Subject) -> Result<Option<InspectionRow>, SpaceError> {
        let (core, (scope, subject)) = (self.spaces.core(), subject.columns());
        let now = core.clock.now();
        Ok(inspections::in_force(&core.db, self.operator.as_str(), scope, &subject, now).await?)
    }

    /// Stores which records a page shows, and then hands them out.
    async fn show(
        &self,
        grant: InspectionRow,
        records: Vec<Inspected>,
        has_more: bool,
    ) -> Result<InspectedPage, SpaceError> {
        let core = self.spaces.core();
        let InspectionRow { id, subject, reason, .. } = grant;
        let uris = records.iter().map(|(uri, _)| uri.to_string()).collect();
        let actor = self.operator.to_string();
        let event = Event::SpaceRecordsInspected { actor, subject, id, reason, uris };
        core.events.store(&core.db, event).await?;
        Ok(InspectedPage { records, has_more })
    }
}
