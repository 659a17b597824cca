//! Notices changes of published lexicons in the stream.

use crate::lexicons::PUBLISHED_LEXICONS;
use belvedere_protocol::atproto::{Did, Nsid};

use super::frame::{Event, EventKind};
use super::scripts::RecordAction;

/// An account's change of a lexicon that it publishes. The content is not part of it: the receiver fetches the lexicon
/// from its publisher, with all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedLexicon {
    pub did: Did,
    pub nsid: Nsid,
    pub is_deletion: bool,
}

impl PublishedLexicon {
    /// `None` for other events, and for those whose DID or NSID is malformed.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let EventKind::Commit(commit) = &event.kind else { return None };
        if commit.collection != PUBLISHED_LEXICONS {
            return None;
        }
        Some(Self {
            did: Did::try_from(&*event.did).ok()?,
            nsid: Nsid::try_from(&*commit.rkey).ok()?,
            is_deletion: commit.action == RecordAction::Delete,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    fn read(operation: &str, collection: &str, rkey: &str) -> Option<PublishedLexicon> {
        let text = format!(
            r#"{{"did":"did:plc:a","time_us":1,"kind":"commit","commit":{{"collection":"{collection}","rkey":"{rkey}",
            "rev":"3mptbypluud2a","operation":"{operation}","record":{{}}}}}}"#
        );
        PublishedLexicon::of(&frame::parse(text.as_bytes()).unwrap().into_event().unwrap())
    }

    #[test]
    fn changes_of_published_lexicons_are_noticed() {
        let of = |is_deletion| PublishedLexicon {
            did: Did::try_from("did:plc:a").unwrap(),
            nsid: Nsid::try_from("com.example.note").unwrap(),
            is_deletion,
        };
        assert_eq!(read("create", PUBLISHED_LEXICONS, "com.example.note"), Some(of(false)));
        assert_eq!(read("update", PUBLISHED_LEXICONS, "com.example.note"), Some(of(false)));
        assert_eq!(read("delete", PUBLISHED_LEXICONS, "com.example.note"), Some(of(true)));
        assert_eq!(read("create", PUBLISHED_LEXICONS, "self"), None);
        assert_eq!(read("create", "com.example.note", "com.example.note"), None);
        assert_eq!(read("explode", PUBLISHED_LEXICONS, "com.example.note"), None);
    }
}
