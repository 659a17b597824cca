//! The rules about the app with which a user calls (spaces.md §4.1, spaces-delta.md §4). A call must pass the rules about its
//! user too ([`super::access`]).

use super::SpaceUri;
use crate::atproto::Nsid;
use crate::atproto::scope::{Need, SpaceAction, SpaceAuthority, SpacePlace};

/// A call about the records of a space, as the scopes of an app see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCall {
    /// Reads the user's own repo.
    ReadOwn,
    /// Reads another repo, or the space.
    ReadOthers,
    Create,
    /// Writes a record with a given key. Whether it exists is looked up in the transaction that writes.
    Put {
        exists: bool,
    },
    Delete,
    /// Gets a delegation token. The credential for it reads everything.
    Delegate,
}

impl RecordCall {
    /// The action that a scope must have.
    pub fn action(self) -> SpaceAction {
        match self {
            Self::ReadOwn => SpaceAction::ReadSelf,
            Self::ReadOthers | Self::Delegate => SpaceAction::Read,
            Self::Create | Self::Put { exists: false } => SpaceAction::Create,
            Self::Put { exists: true } => SpaceAction::Update,
            Self::Delete => SpaceAction::Delete,
        }
    }

    /// The permission that a call needs. `authority`: that of `space`. `collection`: `None` for a call about all that the
    /// type declares. `declared`: the collections that the lexicon of the type declares.
    pub fn need<'a>(
        self,
        space: &'a SpaceUri,
        authority: &'a SpaceAuthority,
        collection: Option<&'a Nsid>,
        declared: &[Nsid],
    ) -> Need<'a> {
        Need::Space {
            at: place(space, authority),
            collection: collection.map(Nsid::as_str),
            is_declared: collection.is_none_or(|collection| declared.contains(collection)),
            action: self.action(),
        }
    }
}

/// A space, for the comparison with scopes.
pub fn place<'a>(space: &'a SpaceUri, authority: &'a SpaceAuthority) -> SpacePlace<'a> {
    SpacePlace { kind: Some(space.kind.as_str()), authority, skey: Some(space.skey.as_str()) }
}

/// The apps that receive credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppAccess {
    Open,
    /// Client ids.
    AllowList(Vec<String>),
}

/// A decision about an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppDecision {
    Allowed,
    /// The app must prove its client id.
    NeedsAttestation,
    Denied,
}

impl AppAccess {
    /// Decides about the app with an attested client id. The list does not apply to writers.
    pub fn decide(&self, attested: Option<&str>) -> AppDecision {
        match (self, attested) {
            (Self::Open, _) => AppDecision::Allowed,
            (Self::AllowList(_), None) => AppDecision::NeedsAttestation,
            (Self::AllowList(allowed), Some(app)) if allowed.iter().any(|other| other == app) => {
                AppDecision::Allowed
            }
            (Self::AllowList(_), Some(_)) => AppDecision::Denied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atproto::scope::Scopes;

    #[test]
    fn each_call_needs_its_action() {
        let space = SpaceUri::parse("at://did:plc:abc/space/com.example.group/main").unwrap();
        let authority = SpaceAuthority::Did(space.did.clone());
        let allowed = |actions: &str, call: RecordCall| {
            let scopes = format!("space:com.example.group?authority=did:plc:abc&{actions}");
            let scopes: Scopes = scopes.parse().unwrap();
            let note = nsid("com.example.note");
            scopes.allows(&call.need(&space, &authority, Some(&note), std::slice::from_ref(&note)))
        };
        let all = [
            (RecordCall::ReadOwn, "read_self"),
            (RecordCall::ReadOthers, "read"),
            (RecordCall::Delegate, "read"),
            (RecordCall::Create, "create"),
            (RecordCall::Put { exists: false }, "create"),
            (RecordCall::Put { exists: true }, "update"),
            (RecordCall::Delete, "delete"),
        ];
        for (call, needed) in all {
            for action in ["read", "read_self", "create", "update", "delete"] {
                let is_allowed = action == needed || (action, needed) == ("read", "read_self");
                assert_eq!(allowed(&format!("action={action}"), call), is_allowed, "{call:?} with {action}");
            }
        }
        assert!(allowed("skey=main", RecordCall::Create) && !allowed("skey=other", RecordCall::Create));
    }

    #[test]
    fn a_scope_without_collections_has_the_declared_ones() {
        let space = SpaceUri::parse("at://did:plc:abc/space/com.example.group/main").unwrap();
        let authority = SpaceAuthority::Did(space.did.clone());
        let scopes: Scopes = "space:com.example.group?authority=*".parse().unwrap();
        for (collection, declared, is_allowed) in [
            (Some("a.b.c"), &["a.b.c", "a.b.d"][..], true),
            (Some("a.b.e"), &["a.b.c", "a.b.d"], false),
            (Some("a.b.c"), &[], false),
            (None, &["a.b.c"], true),
        ] {
            let declared: Vec<Nsid> = declared.iter().map(|name| nsid(name)).collect();
            let collection = collection.map(nsid);
            let need = RecordCall::Create.need(&space, &authority, collection.as_ref(), &declared);
            assert_eq!(scopes.allows(&need), is_allowed, "{collection:?} of {declared:?}");
        }
    }

    fn nsid(text: &str) -> Nsid {
        Nsid::try_from(text).unwrap()
    }

    #[test]
    fn apps_are_admitted_by_their_attested_client_id() {
        let app = "https://app.example/client.json";
        let list = AppAccess::AllowList(vec![app.to_owned()]);
        for (access, attested, decision) in [
            (&AppAccess::Open, None, AppDecision::Allowed),
            (&AppAccess::Open, Some("https://other.example"), AppDecision::Allowed),
            (&list, None, AppDecision::NeedsAttestation),
            (&list, Some(app), AppDecision::Allowed),
            (&list, Some("https://app.example/client.json/"), AppDecision::Denied),
            (&AppAccess::AllowList(Vec::new()), Some(app), AppDecision::Denied),
        ] {
            assert_eq!(access.decide(attested), decision, "{access:?} {attested:?}");
        }
    }
}
