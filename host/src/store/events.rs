//! The event log.

use crate::clock::Timestamp;

use super::{Db, StoreError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Info,
    Warn,
    Error,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "info" => Some(Self::Info),
            "warn" => Some(Self::Warn),
            "error" => Some(Self::Error),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// UUID.
    pub id: String,
    /// `category.what_happened`
    pub event_type: String,
    pub severity: Severity,
    pub actor_did: Option<String>,
    pub subject: Option<String>,
    /// JSON text of an object.
    pub detail: String,
    pub created_at: Timestamp,
}

/// All given conditions must hold; an empty list is no condition.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    /// First segments of event types.
    pub categories: Vec<String>,
    pub severities: Vec<Severity>,
    /// A part of the subject, letter case included.
    pub subject: Option<String>,
    pub after: Option<EventKeyset>,
}

/// Where a page ended. Without an id: everything older than the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKeyset {
    pub created_at: Timestamp,
    pub id: Option<String>,
}

pub async fn insert(_db: &Db, _events: &[EventRow]) -> Result<(), StoreError> {
    todo!()
}

/// Newest first by (`created_at`, id).
pub async fn list(_db: &Db, _filter: &EventFilter, _limit: u32) -> Result<Vec<EventRow>, StoreError> {
    todo!()
}

/// Removes events older than `before`, at most `max` a call. Returns how many.
pub async fn delete_before(_db: &Db, _before: Timestamp, _max: u32) -> Result<u64, StoreError> {
    todo!()
}
