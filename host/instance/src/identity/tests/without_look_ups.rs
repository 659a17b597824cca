//! A resolver that may look nothing up.

use super::*;
use belvedere_protocol::atproto::Handle;

#[tokio::test]
async fn only_what_is_cached_is_an_answer() {
    let directory = Directory::start().await;
    directory.set("/did:plc:abc", 200, document("did:plc:abc", "https://one.test"));
    let online = directory.resolver(&clock(), false);
    let offline = online.without_look_ups();
    let abc = did("did:plc:abc");
    assert!(matches!(offline.resolve(&abc).await, Err(IdentityError::NotCached)));
    assert!(matches!(offline.no_older_than(&abc, 0).await, Err(IdentityError::NotCached)));
    assert!(matches!(offline.for_reads().resolve(&abc).await, Err(IdentityError::NotCached)));
    assert_eq!(offline.pds_within(&abc, Duration::from_secs(9)).await, None);
    let handle = Handle::try_from("alice.example").unwrap();
    let owner = offline.account_for_read(handle.as_str()).await;
    assert!(matches!(owner, Err(HandleError::Identity(IdentityError::NotCached))), "{owner:?}");
    assert!(online.asks_domain_of(&handle) && !offline.asks_domain_of(&handle), "nobody pays for it");
    assert_eq!(directory.requests.load(Ordering::SeqCst), 0);

    // Its errors are not cached.
    assert!(online.resolve(&abc).await.is_ok());
    assert_eq!(offline.resolve(&abc).await.unwrap().pds(), Some("https://one.test"));
    online.expire(&abc).await;
    assert_eq!(offline.pds_within(&abc, Duration::from_secs(9)).await.as_deref(), Some("https://one.test"));
    assert_eq!(directory.requests.load(Ordering::SeqCst), 1);
}
