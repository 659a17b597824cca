use std::time::Duration;

use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

use super::fixtures::*;
use crate::store::spaces::credentials::{self, Revoked};
use crate::store::spaces::inspections::{self, InspectionRow, Scope};
use crate::store::spaces::members::Put;
use crate::store::spaces::settings::{self as of_space, SettingsChange};
use crate::store::{Patch, StoreError, on};
use belvedere_protocol::spaces::access::{MemberAccess, Policy, Readable};
use belvedere_protocol::spaces::app_gate::AppAccess;

on_both!(
    credentials_are_revoked_by_account_and_by_id,
    other_settings_end_credentials,
    a_credential_waits_for_changes_of_members,
    inspections_end
);

async fn credentials_are_revoked_by_account_and_by_id(db: TestDb) {
    let (space, other) = (create(&db, "main").await, create(&db, "other").await);
    let issue =
        async |space, jti, n, until| credentials::issue(&db, space, jti, &did(n), Timestamp(until)).await;
    for (space, jti, n, until) in
        [(space, "a", 2, 100), (space, "old", 2, 1), (space, "b", 3, 100), (other, "a", 2, 100)]
    {
        issue(space, jti, n, until).await.unwrap();
    }
    assert!(matches!(issue(space, "a", 3, 100).await, Err(StoreError::Conflict(_))));
    let revoked = async |space, jti| credentials::is_revoked(&db, space, jti).await.unwrap();
    let own = MemberAccess { reads: Readable::Own, writes: true };
    let ended = vec![Revoked { space_id: space, jti: "a".to_owned() }];
    for revoked in [ended, Vec::new()] {
        assert_eq!(join(&db, space, 2, own).await, Put::Stored { revoked });
    }
    assert!(revoked(space, "a").await && !revoked(space, "b").await && !revoked(other, "a").await);
    // By the authority of a space, also ids that were not seen before, also again.
    let jtis = ["b".to_owned(), "new".to_owned()];
    for keep_until in [200, 150] {
        credentials::revoke(&db, space, &jtis, Timestamp(10), Timestamp(keep_until)).await.unwrap();
    }
    assert!(revoked(space, "b").await && revoked(space, "new").await && !revoked(other, "new").await);
    assert_eq!(credentials::prune(&db, Timestamp(200), 2).await.unwrap(), 2);
    assert_eq!(credentials::prune(&db, Timestamp(200), 9).await.unwrap(), 1);
    assert!(revoked(space, "b").await && revoked(space, "new").await, "kept until then");
    assert_eq!(credentials::prune(&db, Timestamp(201), 9).await.unwrap(), 2);
    let odd = credentials::revoke(&db, space, &["a\0b".to_owned()], Timestamp(1), Timestamp(2)).await;
    assert!(matches!(odd, Ok(()) | Err(StoreError::BadValue(_))), "{odd:?}");
    let odd = credentials::is_revoked(&db, space, "a\0b").await;
    assert!(matches!(odd, Ok(_) | Err(StoreError::BadValue(_))), "{odd:?}");
}

async fn other_settings_end_credentials(db: TestDb) {
    let (space, other) = (create(&db, "main").await, create(&db, "other").await);
    let update = async |change| of_space::update(&db, space, &change, Timestamp(10)).await.unwrap().unwrap();
    let default = SettingsChange::default;
    let apps = |apps: &[&str]| {
        let allowed = AppAccess::AllowList(apps.iter().map(|&app| app.to_owned()).collect());
        SettingsChange { app_access: Some(allowed), ..default() }
    };
    let reads = |policy| SettingsChange { read_policy: Some(policy), ..default() };
    credentials::issue(&db, other, "other", &did(2), Timestamp(100)).await.unwrap();
    for (n, (change, ends)) in [
        (SettingsChange { write_policy: Some(Policy::Public), ..default() }, false),
        (SettingsChange { display_name: Patch::Set("x".into()), ..default() }, false),
        (SettingsChange { app_access: Some(AppAccess::Open), ..reads(Policy::MemberList) }, false),
        (reads(Policy::Public), true),
        (reads(Policy::Public), false),
        (apps(&["https://a.example"]), true),
        (apps(&["https://a.example"]), false),
        (apps(&[]), true),
        (SettingsChange { app_access: Some(AppAccess::Open), ..reads(Policy::MemberList) }, true),
    ]
    .into_iter()
    .enumerate()
    {
        let jtis = [format!("{n}"), format!("{n} expired")];
        for (jti, until) in jtis.iter().zip([100, 9]) {
            credentials::issue(&db, space, jti, &did(CREATOR), Timestamp(until)).await.unwrap();
        }
        let mut revoked: Vec<_> = update(change).await.into_iter().map(|revoked| revoked.jti).collect();
        revoked.sort();
        assert_eq!(revoked.contains(&jtis[0]), ends, "{n}");
        assert_eq!(credentials::is_revoked(&db, space, &jtis[0]).await.unwrap(), ends, "{n}");
        assert!(!revoked.contains(&jtis[1]), "{n}");
    }
    assert!(!credentials::is_revoked(&db, other, "other").await.unwrap());
}

/// Otherwise the removal of a member would overlook a credential that is stored at the same time.
async fn a_credential_waits_for_changes_of_members(db: TestDb) {
    let space = create(&db, "main").await;
    let hold = "UPDATE spaces SET updated_at = updated_at WHERE id = $1";
    let copy = Db::clone(&db);
    let issue =
        async move { credentials::issue(&copy, space, "jti", &did(2), Timestamp(100)).await.unwrap() };
    let issued = on!(&*db, writer, |pool| {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query(hold).bind(space).execute(&mut *tx).await.unwrap();
        let mut issued = tokio::spawn(issue);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut issued).await;
        assert!(early.is_err(), "it has not waited");
        tx.rollback().await.unwrap();
        issued.await.unwrap()
    });
    assert!(issued);
    assert!(!credentials::issue(&db, SpaceId(99), "jti", &did(2), Timestamp(100)).await.unwrap());
    assert_eq!(count(&db, "space_credentials").await, 1);
}

async fn inspections_end(db: TestDb) {
    let grant = |id: &str, scope, until| InspectionRow {
        id: id.to_owned(),
        scope,
        subject: "at://x".to_owned(),
        operator: "did:plc:op".to_owned(),
        reason: "\u{1F469} ' \"".to_owned(),
        granted_by: "did:plc:boss".to_owned(),
        created_at: Timestamp(i64::from(id.as_bytes()[0])),
        expires_at: Timestamp(until),
        revoked_at: None,
    };
    let grants = [grant("a", Scope::Space, 10), grant("b", Scope::Space, 20), grant("c", Scope::Account, 99)];
    for grant in &grants {
        inspections::grant(&db, grant).await.unwrap();
    }
    let in_force = async |operator, scope, now| {
        let found = inspections::in_force(&db, operator, scope, "at://x", Timestamp(now)).await.unwrap();
        found.map(|grant| grant.id)
    };
    let op = "did:plc:op";
    assert_eq!(in_force(op, Scope::Space, 5).await.as_deref(), Some("b"));
    assert_eq!(
        (in_force(op, Scope::Space, 20).await, in_force("did:plc:boss", Scope::Space, 5).await),
        (None, None)
    );
    assert!(inspections::revoke(&db, "b", Timestamp(6)).await.unwrap().is_some());
    assert!(inspections::revoke(&db, "x", Timestamp(6)).await.unwrap().is_none());
    assert_eq!(in_force(op, Scope::Space, 7).await.as_deref(), Some("a"));
    let all = inspections::page(&db, None, 9).await.unwrap();
    assert_eq!(all[0], grants[2]);
    assert_eq!((all[1].revoked_at, all.len()), (Some(Timestamp(6)), 3));
    let rest = inspections::page(&db, Some((all[1].created_at, &all[1].id)), 9).await.unwrap();
    assert_eq!(rest, all[2..]);
    let odd =
        inspections::grant(&db, &InspectionRow { reason: "a\0b".into(), ..grant("z", Scope::Space, 1) })
            .await;
    assert!(matches!(odd, Ok(()) | Err(StoreError::BadValue(_))), "{odd:?}");
}
