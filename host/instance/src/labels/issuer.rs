//! Applies and negates labels, for operators and scripts.

use std::sync::Arc;

use tokio::sync::Notify;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::atproto::labels::{InvalidLabel, check_subject, is_value};
use belvedere_storage::store::issued_labels::{self, IssuedLabel};
use belvedere_storage::store::labels::Label;
use belvedere_storage::store::{Db, StoreError};

use crate::service_identity::{Labeler, ServiceIdentity};

/// A label to apply or to negate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequest {
    /// A DID, or an AT URI.
    pub uri: String,
    pub val: String,
    /// The version of the record; `None`: all.
    pub cid: Option<String>,
    pub neg: bool,
    pub exp: Option<Timestamp>,
}

/// Error for a label that is not issued. The text is for the caller.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error(
        "this instance is no labeler: it needs a DID that others see (docs/service-identity.md), with the verification \
         method #atproto_label"
    )]
    NoLabeler,
    #[error("{0}")]
    Label(InvalidLabel),
    #[error("exp must be in the future")]
    Expired,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct LabelIssuer {
    db: Db,
    clock: Clock,
    identity: ServiceIdentity,
    issued: Arc<Notify>,
}

impl LabelIssuer {
    pub fn new(db: Db, clock: Clock, identity: ServiceIdentity) -> Self {
        Self { db, clock, identity, issued: Arc::default() }
    }

    /// Notified after labels were issued here.
    pub(super) fn issued(&self) -> Arc<Notify> {
        Arc::clone(&self.issued)
    }

    /// Checks a label without issuing it.
    ///
    /// # Errors
    /// See [`IssueError`].
    pub fn check(&self, request: &LabelRequest) -> Result<(), IssueError> {
        self.label(request).map(drop)
    }

    /// Issues a label, and stores it among those in force here. `None` when the same is in force already.
    ///
    /// # Errors
    /// See [`IssueError`].
    pub async fn issue(
        &self,
        request: &LabelRequest,
        created_by: &str,
    ) -> Result<Option<IssuedLabel>, IssueError> {
        let label = self.label(request)?;
        let now = label.cts;
        let mut issued = issued_labels::issue(&self.db, &[label], created_by, now).await?;
        if !issued.is_empty() {
            self.issued.notify_one();
        }
        Ok(issued.pop())
    }

    fn label(&self, request: &LabelRequest) -> Result<Label, IssueError> {
        let Labeler { did, .. } = self.identity.labeler().ok_or(IssueError::NoLabeler)?;
        let LabelRequest { uri, val, cid, neg, exp } = request.clone();
        check_subject(&uri).map_err(IssueError::Label)?;
        if !is_value(&val) {
            return Err(IssueError::Label(InvalidLabel::Value));
        }
        if cid.as_deref().is_some_and(|cid| cid.parse::<Cid>().is_err()) {
            return Err(IssueError::Label(InvalidLabel::Cid));
        }
        let cts = self.clock.now();
        if exp.is_some_and(|exp| exp <= cts) {
            return Err(IssueError::Expired);
        }
        Ok(Label { uri, src: did.to_string(), val, cid, neg, cts, exp })
    }
}
