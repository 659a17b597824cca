//! The client whose request the current task answers: [`super::EventLog`] adds it to the events that occur meanwhile
//! (docs/adr/0146). Events of background work have none.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use belvedere_storage::store::events::{Authentication, Requester};

/// Characters of the name of an API key that an event keeps. Names are of any length.
const MAX_NAME_CHARS: usize = 100;

tokio::task_local! {
    static CURRENT: Arc<Current>;
}

#[derive(Debug)]
struct Current {
    address: IpAddr,
    credential: OnceLock<Credential>,
}

#[derive(Debug)]
struct Credential {
    authentication: Authentication,
    api_key: Option<String>,
}

/// Answers a request of the client with this address.
pub async fn scope<T>(address: IpAddr, answer: impl Future<Output = T>) -> T {
    CURRENT.scope(Arc::new(Current { address, credential: OnceLock::new() }), answer).await
}

/// Takes the requester along into work that continues in another task.
pub fn inherit<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let current = CURRENT.try_with(Arc::clone).ok();
    async move {
        match current {
            Some(current) => CURRENT.scope(current, work).await,
            None => work.await,
        }
    }
}

/// Notes that the client has authenticated. `api_key`: the name of the key.
pub fn authenticated(authentication: Authentication, api_key: Option<&str>) {
    let api_key = api_key.map(|name| name.chars().take(MAX_NAME_CHARS).collect());
    // Fails outside of requests, and for a second proof of the same request, which is of no other client.
    let _ = CURRENT.try_with(|current| current.credential.set(Credential { authentication, api_key }));
}

/// The requester as the events have it.
pub(super) fn current() -> Requester {
    let of_request = |current: &Arc<Current>| {
        let credential = current.credential.get();
        Requester {
            address: Some(current.address.to_string()),
            authentication: credential.map(|credential| credential.authentication),
            api_key: credential.and_then(|credential| credential.api_key.clone()),
        }
    };
    CURRENT.try_with(of_request).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_in_another_task_has_the_requester_only_if_it_inherits_it() {
        assert_eq!(current(), Requester::default());
        let name = "k".repeat(MAX_NAME_CHARS + 1);
        let (own, inherited, other) = scope([192, 0, 2, 1].into(), async {
            authenticated(Authentication::ApiKey, Some(&name));
            authenticated(Authentication::Session, None);
            let inherited = tokio::spawn(inherit(async { current() })).await.unwrap();
            (current(), inherited, tokio::spawn(async { current() }).await.unwrap())
        })
        .await;
        let expected = Requester {
            address: Some("192.0.2.1".to_owned()),
            authentication: Some(Authentication::ApiKey),
            api_key: Some("k".repeat(MAX_NAME_CHARS)),
        };
        assert_eq!((own, inherited), (expected.clone(), expected));
        assert_eq!(other, Requester::default());
    }
}
