use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::SpaceUri;

use super::fixtures::*;
use crate::store::StoreError;
use crate::store::spaces::registrations::{self, MAX_REGISTRATIONS, Registered};
use crate::store::spaces::repos::RepoHost;
use crate::store::spaces::{deletion, deliveries, writers};
use crate::store::tests::fixtures::rev;

const SERVICE: &str = "did:web:a.example#sync";

async fn register(db: &Db, space: SpaceId, service: &str, until: i64) -> Registered {
    register_at(db, space, service, "https://a.example", until).await
}

async fn register_at(db: &Db, space: SpaceId, service: &str, endpoint: &str, until: i64) -> Registered {
    let registered = registrations::register(
        db,
        space,
        service,
        endpoint,
        "did:plc:caller",
        Timestamp(until),
        Timestamp(1),
    );
    registered.await.unwrap()
}

on_both!(
    registrations_are_renewed_and_expire,
    a_renewal_keeps_the_pause_after_failures,
    the_services_of_a_deleted_space_are_told,
    a_space_has_a_limited_number_of_services,
    only_the_last_state_of_a_repo_waits,
    attempts_are_made_by_one_host_at_a_time,
    the_authority_of_another_host_receives_writes
);

async fn registrations_are_renewed_and_expire(db: TestDb) {
    let space = create(&db, "main").await;
    assert_eq!(register(&db, space, SERVICE, 10).await, Registered::Stored);
    assert_eq!(register(&db, space, SERVICE, 20).await, Registered::Stored);
    let get = async |now| registrations::get(&db, space, SERVICE, Timestamp(now)).await.unwrap();
    let row = get(19).await.unwrap();
    assert_eq!(
        (row.expires_at, row.endpoint.as_str(), row.failures),
        (Timestamp(20), "https://a.example", 0)
    );
    assert!(get(20).await.is_none());
    assert_eq!(registrations::list(&db, space, Timestamp(2)).await.unwrap(), [row]);
    assert_eq!(register(&db, SpaceId(99), SERVICE, 20).await, Registered::NoSpace);
    apply(&db, space, 2, 5, &[put(&note("a"), 1)]).await.unwrap();
    assert_eq!(count(&db, "space_deliveries").await, 1);
    assert_eq!(registrations::prune(&db, Timestamp(19), 9).await.unwrap(), 0);
    assert_eq!(registrations::prune(&db, Timestamp(20), 9).await.unwrap(), 1);
    assert_eq!(count(&db, "space_deliveries").await, 0);
    for n in ["x", "y", "z"] {
        register(&db, space, n, 20).await;
    }
    apply(&db, space, 2, 6, &[put(&note("a"), 1)]).await.unwrap();
    assert_eq!(registrations::prune(&db, Timestamp(20), 2).await.unwrap(), 2);
    assert_eq!(count(&db, "space_deliveries").await, 1);
    assert_eq!(registrations::prune(&db, Timestamp(20), 2).await.unwrap(), 1);
    assert!(!registrations::unregister(&db, space, SERVICE).await.unwrap());
    let odd = registrations::get(&db, space, "a\0b", Timestamp(1)).await;
    assert!(matches!(odd, Ok(None) | Err(StoreError::BadValue(_))), "{odd:?}");
}

async fn a_renewal_keeps_the_pause_after_failures(db: TestDb) {
    let space = create(&db, "main").await;
    register(&db, space, SERVICE, 1_000).await;
    let row = async || registrations::get(&db, space, SERVICE, Timestamp(2)).await.unwrap().unwrap();
    let state = async || row().await.next_attempt_at.0;
    assert!(deliveries::begin(&db, &row().await, Timestamp(50)).await.unwrap());
    register(&db, space, SERVICE, 2_000).await;
    let end = async |until, next| {
        deliveries::end(&db, space, SERVICE, Timestamp(until), true, Timestamp(next)).await.unwrap();
    };
    end(50, 400).await;
    register(&db, space, SERVICE, 3_000).await;
    assert_eq!((row().await.failures, row().await.expires_at, state().await), (1, Timestamp(3_000), 400));
    // Another endpoint has not failed, and an attempt at the old one says nothing about it.
    assert!(deliveries::begin(&db, &row().await, Timestamp(500)).await.unwrap());
    register_at(&db, space, SERVICE, "https://b.example", 3_000).await;
    end(500, 9_000).await;
    assert_eq!((row().await.failures, state().await), (0, 1));
}

/// A crash right after the deletion loses no notice.
async fn the_services_of_a_deleted_space_are_told(db: TestDb) {
    let space = create(&db, "main").await;
    register(&db, space, SERVICE, 1_000).await;
    register(&db, space, "expired", 5).await;
    apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let due = async |now| deliveries::due(&db, Timestamp(now), 9).await.unwrap();
    let before = due(10).await.remove(0);
    assert!(!before.is_space_deleted);
    // The service does not answer.
    assert!(deliveries::begin(&db, &before.service, Timestamp(500)).await.unwrap());
    deletion::delete(&db, space, Timestamp(50)).await.unwrap().unwrap();
    let found = due(50).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].is_space_deleted && found[0].service.service == SERVICE);
    assert!(deliveries::waiting(&db, space, SERVICE, 9).await.unwrap().is_empty());
    deletion::purge(&db, Timestamp(51)).await.unwrap();
    assert_eq!(space::by_id(&db, space).await.unwrap().unwrap().uri, uri("main"), "the notice names it");
    assert!(deliveries::begin(&db, &found[0].service, Timestamp(60)).await.unwrap());
    deliveries::end(&db, space, SERVICE, Timestamp(60), true, Timestamp(70)).await.unwrap();
    assert_eq!((due(69).await.len(), due(70).await.len()), (0, 1), "it is told again");
    assert!(registrations::unregister(&db, space, SERVICE).await.unwrap());
    assert!(due(70).await.is_empty());
    assert_eq!(registrations::prune(&db, Timestamp(70), 9).await.unwrap(), 1);
    // The authority of another host deletes it, and needs no notice.
    let other = SpaceUri::parse("at://did:web:other.example/space/com.example.group/x").unwrap();
    let copy = space::of_other_host(&db, &other, Timestamp(1)).await.unwrap().unwrap();
    register(&db, copy, "did:web:other.example#atproto_space_host", i64::MAX).await;
    deletion::delete(&db, copy, Timestamp(80)).await.unwrap().unwrap();
    assert_eq!(count(&db, "space_registrations").await, 0);
}

async fn a_space_has_a_limited_number_of_services(db: TestDb) {
    let space = create(&db, "main").await;
    for n in 0..MAX_REGISTRATIONS {
        assert_eq!(register(&db, space, &n.to_string(), 9).await, Registered::Stored);
    }
    assert_eq!(register(&db, space, "x", 9).await, Registered::TooMany);
    assert_eq!(register(&db, space, "5", 99).await, Registered::Stored, "a renewal");
    assert!(registrations::unregister(&db, space, "6").await.unwrap());
    assert_eq!(register(&db, space, "x", 9).await, Registered::Stored);
}

async fn only_the_last_state_of_a_repo_waits(db: TestDb) {
    let space = create(&db, "main").await;
    register(&db, space, SERVICE, 1_000).await;
    register(&db, space, "expired", 5).await;
    let first = apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let notices = async || deliveries::waiting(&db, space, SERVICE, 9).await.unwrap();
    let notice = notices().await.remove(0);
    assert_eq!((notice.author.clone(), Some(notice.rev), notice.hash), (did(2), first.rev, first.hash));
    assert_eq!((notice.space_rev, notice.prev_space_rev), (first.tracked.map(|t| t.space_rev), None));
    writers::track(&db, space, &did(3), (rev(1), [7; 32]), Some(&did(9)), Timestamp(20)).await.unwrap();
    let last = apply(&db, space, 2, 30, &[put(&note("a"), 2)]).await.unwrap();
    let waiting = notices().await;
    assert_eq!(waiting.iter().map(|notice| notice.author.clone()).collect::<Vec<_>>(), [did(3), did(2)]);
    assert_eq!((Some(waiting[1].rev), waiting[1].queued_at), (last.rev, Timestamp(30)));
    assert_eq!(waiting[1].prev_space_rev, waiting[0].space_rev);
    // The notice that was sent is older than the one that waits now.
    deliveries::delivered(&db, space, SERVICE, &notice).await.unwrap();
    assert_eq!(notices().await.len(), 2);
    deliveries::delivered(&db, space, SERVICE, &waiting[1]).await.unwrap();
    assert_eq!(notices().await, waiting[..1]);
    assert_eq!(deliveries::prune(&db, Timestamp(20), 9).await.unwrap(), 0);
    apply(&db, space, 4, 19, &[put(&note("a"), 1)]).await.unwrap();
    assert_eq!(deliveries::prune(&db, Timestamp(21), 1).await.unwrap(), 1);
    assert_eq!(deliveries::prune(&db, Timestamp(21), 1).await.unwrap(), 1);
    assert_eq!(count(&db, "space_deliveries").await, 0, "an expired service has no notices");
}

async fn attempts_are_made_by_one_host_at_a_time(db: TestDb) {
    let space = create(&db, "main").await;
    register(&db, space, SERVICE, 1_000).await;
    let due = async |now| deliveries::due(&db, Timestamp(now), 9).await.unwrap();
    assert!(due(5).await.is_empty(), "nothing waits");
    apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    let row = due(10).await.remove(0).service;
    let begin = async || deliveries::begin(&db, &row, Timestamp(50)).await.unwrap();
    assert!(begin().await && !begin().await && due(49).await.is_empty());
    assert_eq!(due(50).await.len(), 1, "its host has ended");
    let end = async |until, has_failed, next| {
        let (until, next) = (Timestamp(until), Timestamp(next));
        deliveries::end(&db, space, SERVICE, until, has_failed, next).await.unwrap();
    };
    end(50, true, 60).await;
    end(60, true, 70).await;
    assert!(due(69).await.is_empty());
    assert_eq!(due(70).await[0].service.failures, 2);
    end(60, false, 61).await;
    assert_eq!(due(70).await[0].service.failures, 2, "another attempt has begun since");
    end(70, false, 71).await;
    assert_eq!(due(71).await[0].service.failures, 0);
    assert!(due(1_000).await.is_empty(), "the registration has expired");
}

async fn the_authority_of_another_host_receives_writes(db: TestDb) {
    let uri = SpaceUri::parse("at://did:web:other.example/space/com.example.group/x").unwrap();
    let space = space::of_other_host(&db, &uri, Timestamp(1)).await.unwrap().unwrap();
    register(&db, space, "did:web:other.example#atproto_space_host", i64::MAX).await;
    let applied = apply(&db, space, 2, 10, &[put(&note("a"), 1)]).await.unwrap();
    assert!(applied.tracked.is_none());
    let row = deliveries::due(&db, Timestamp(10), 9).await.unwrap().remove(0).service;
    let waiting = deliveries::waiting(&db, space, &row.service, 9).await.unwrap();
    assert_eq!((waiting[0].space_rev, Some(waiting[0].rev), waiting.len()), (None, applied.rev, 1));
    assert_eq!(waiting[0].host, RepoHost::Here);
}
