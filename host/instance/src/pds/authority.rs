//! Decides which stored sessions a caller may use.

use std::sync::Arc;

use super::SessionSelector;
use belvedere_protocol::atproto::Did;

/// A caller's proven authority over stored sessions. The API client that a request names is not part of it: client keys
/// are public and prove nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionAuthority {
    /// No session: an anonymous call, a call with service auth, a job without `auth`.
    #[default]
    None,
    /// The session (by id) that the caller proved to hold: with a DPoP proof, a session of an API client (by id); with
    /// a cookie, a login at the instance itself, which belongs to no client.
    Session { id: Arc<str>, client: Option<Arc<str>> },
    /// The newest session of the caller at an API client (by id), or of their logins at the instance itself. For a job
    /// with `auth`, whose creator proved to hold such a session.
    Newest { client: Option<Arc<str>> },
}

impl SessionAuthority {
    /// The API client, by id, of the session that the caller proved to hold.
    pub fn client(&self) -> Option<&Arc<str>> {
        match self {
            Self::None => None,
            Self::Session { client, .. } | Self::Newest { client } => client.as_ref(),
        }
    }

    /// Whether the caller may use any session.
    pub fn is_some(&self) -> bool {
        *self != Self::None
    }

    /// The session for calls to the PDS of `user`, or with `account` to that of an account that `user` writes for.
    /// Accounts are shared within an API client, so `account` requires a proved session of one.
    pub fn session_of<'a>(&'a self, user: &'a Did, account: Option<&'a Did>) -> Option<SessionSelector<'a>> {
        match (self, account) {
            (Self::None, _) => None,
            (_, Some(did)) => Some(SessionSelector::Account { did, client: Some(self.client()?) }),
            (Self::Session { id, .. }, None) => Some(SessionSelector::Id(id)),
            (Self::Newest { client }, None) => {
                Some(SessionSelector::Account { did: user, client: client.as_deref() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_only_with_a_proof() {
        let did = |text: &str| Did::try_from(text).unwrap();
        let (user, team) = (did("did:plc:user"), did("did:plc:team"));
        let client = || Some(Arc::from("app"));
        let which = |authority: &SessionAuthority, account: Option<&Did>| {
            authority.session_of(&user, account).map(|which| format!("{which:?}"))
        };
        assert_eq!(which(&SessionAuthority::None, None), None);
        assert_eq!(which(&SessionAuthority::None, Some(&team)), None);

        let dpop = SessionAuthority::Session { id: "s1".into(), client: client() };
        assert_eq!(which(&dpop, None), Some(format!("{:?}", SessionSelector::Id("s1"))));
        let of_team = SessionSelector::Account { did: &team, client: Some("app") };
        assert_eq!(which(&dpop, Some(&team)), Some(format!("{of_team:?}")));

        let cookie = SessionAuthority::Session { id: "s2".into(), client: None };
        assert_eq!(which(&cookie, None), Some(format!("{:?}", SessionSelector::Id("s2"))));
        assert_eq!(which(&cookie, Some(&team)), None, "accounts are shared within an API client");

        let job = SessionAuthority::Newest { client: client() };
        let newest = SessionSelector::Account { did: &user, client: Some("app") };
        assert_eq!(which(&job, None), Some(format!("{newest:?}")));
    }
}
