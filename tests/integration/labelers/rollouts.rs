//! Rollouts of label scripts.

use super::*;

crate::in_both_worlds!(an_account_keeps_its_version_of_a_label_script);

/// Accounts whose part is chosen by their DIDs.
const ACCOUNTS: usize = 24;

async fn an_account_keeps_its_version_of_a_label_script(world: World) {
    let world = world.with_notes().await;
    let path = "/admin/scripts/labeler.apply%3A_actor/rollout";
    let speaker = Speaker::followed(&world).await;
    let body = |version: u32| format!("function handle() return {{ val = val .. '-{version}' }} end");
    world.server.bind_to("labeler.apply:_actor", &body(1)).await;
    let rollout = json!({ "body": body(2), "percent": 50 });
    assert_eq!(world.server.admin(Method::POST, path, Some(&rollout)).await.status, 201);
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("did:plc:account{n}")).collect();
    let round = async |val: &str| {
        let labels: Vec<Label<'_>> = accounts.iter().map(|did| Label::new(did, val, EARLY)).collect();
        speaker.say(&world, &labels).await;
        let sql = json!({ "sql": "SELECT uri, val FROM labels ORDER BY uri" });
        let rows = world.server.admin(Method::POST, "/admin/sql", Some(&sql)).await.body["rows"].clone();
        let rows: Vec<String> = rows.as_array().unwrap().iter().map(Value::to_string).collect();
        let version = |did: &String| {
            let is = |version: u32| {
                let (did, val) = (format!("\"{did}\""), format!("\"{val}-{version}\""));
                rows.iter().any(|row| row.contains(&did) && row.contains(&val))
            };
            assert!(is(1) != is(2), "{did}: {rows:?}");
            if is(2) { 2 } else { 1 }
        };
        accounts.iter().map(version).collect::<Vec<u32>>()
    };
    let first = round("spam").await;
    assert!(first.contains(&1) && first.contains(&2), "{first:?}");
    assert_eq!(round("rude").await, first, "the labels of an account keep their version");
    assert_eq!(world.server.admin(Method::DELETE, path, None).await.status, 200);
    assert_eq!(round("late").await, [1; ACCOUNTS]);
}
