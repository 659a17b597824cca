//! Issues the labels of this instance, for operators and scripts (ADR 128).

use std::time::Duration;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Cid;
use belvedere_protocol::atproto::labels::{InvalidLabel, NewLabel, check_subject, is_value};
use belvedere_storage::store::issued_labels::{self, IssuedLabel};
use belvedere_storage::store::labels::Label;
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::{Bounds, FairPool};

use crate::service_identity::{Labeler, ServiceIdentity};

/// Open subscriptions. Tenants are addresses. Each keeps a connection open and looks for new labels once a second.
const SUBSCRIPTIONS: Bounds =
    Bounds { permits: 128, per_tenant: 8, waiting: 0, waiting_per_tenant: 0, max_wait: Duration::ZERO };

/// The permits of subscriptions.
pub fn subscriptions() -> FairPool {
    FairPool::new("label_subscriptions", SUBSCRIPTIONS)
}

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
}

impl LabelIssuer {
    pub fn new(db: Db, clock: Clock, identity: ServiceIdentity) -> Self {
        Self { db, clock, identity }
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

/// A label with its signature.
#[derive(Debug)]
pub struct Signed<'a> {
    label: NewLabel<'a>,
    seq: i64,
    signature: [u8; 64],
}

impl<'a> Signed<'a> {
    /// Signs a label with the key of today, whatever key it was issued under: subscribers check with the key of the DID document.
    pub fn new(labeler: &Labeler, issued: &'a IssuedLabel) -> Self {
        let Label { uri, src, val, cid, neg, cts, exp } = &issued.label;
        let label = NewLabel { src, uri, cid: cid.as_deref(), val, neg: *neg, cts: *cts, exp: *exp };
        Self { label, seq: issued.seq, signature: labeler.key.sign(&label.signed_bytes()) }
    }

    pub fn json(&self) -> serde_json::Value {
        self.label.json(&self.signature)
    }

    /// The message of `subscribeLabels`.
    pub fn message(&self) -> Vec<u8> {
        self.label.message(self.seq, &self.signature)
    }
}
