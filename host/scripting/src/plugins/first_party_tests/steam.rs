//! Steam: sign-in with OpenID, and the records of games.

use belvedere_standins::database::Database;
use belvedere_standins::steam::{self, Steam};
use serde_json::json;

use super::{NOW_TEXT, Stage, both, code, scope, sizes, value};
use crate::plugins::calls::{Expiry, FaultCode, Linker as _};
use belvedere_protocol::atproto::Nsid;

async fn steam_stage(database: Database, service: &Steam, key: &str) -> Stage {
    let proxy = service.proxy_url();
    Stage::set(database, "steam", &[("PROXY_URL", &proxy), ("API_KEY", key)]).await
}

#[tokio::test]
async fn steam_links_and_syncs() {
    for database in both().await {
        let service = Steam::start(NOW_TEXT).await;
        service.set_games(Some(250));
        let stage = steam_stage(database, &service, steam::API_KEY).await;
        let tokens = stage.link().await;
        assert_eq!((tokens.access.as_str(), tokens.expiry), (steam::STEAM_ID, Expiry::Never));

        let profile = stage.profile(&tokens).await.unwrap();
        assert_eq!(profile.account_id, steam::STEAM_ID);
        assert_eq!(profile.display_name.as_deref(), Some("Rabscuttle"));

        let pages = stage.sync(&tokens).await.unwrap();
        assert_eq!(sizes(&pages), [200, 200, 100], "two records for each game");
        let collections = stage.plugin.grants.written_collections();
        let collections: Vec<&str> = collections.map(Nsid::as_str).collect();
        assert!(
            pages.iter().flatten().all(|item| item.sign && collections.contains(&item.collection.as_str()))
        );
        assert_eq!(pages[0][0].dedup_key.as_deref(), Some("steam:1"));
        let expected = json!({"$type": "dev.games.actor.stats", "platform": "steam", "externalId": "1",
            "playtimeMinutes": 10, "lastPlayedAt": "2023-11-14T22:13:20Z"});
        assert_eq!(value(&pages[0][1]), expected);

        let revoked = stage.calls.of(&stage.plugin).revoke(&scope(), &tokens).await;
        assert_eq!(code(revoked).0, FaultCode::Unsupported);
    }
}

#[tokio::test]
async fn steam_refuses_assertions_that_are_forged_replayed_or_old() {
    for database in both().await {
        let service = Steam::start(NOW_TEXT).await;
        let stage = steam_stage(database, &service, steam::API_KEY).await;
        let callback = stage.callback().await;
        stage.finish(callback.clone()).await.unwrap();
        let (found, message) = code(stage.finish(callback).await);
        assert_eq!(found, FaultCode::Forbidden);
        assert!(message.contains("used before"), "{message}");

        let mut forged = stage.callback().await;
        for (name, value) in &mut forged.params {
            if matches!(name.as_str(), "openid.claimed_id" | "openid.identity") {
                *value = value.replace("287930", "287931");
            }
        }
        let (_, message) = code(stage.finish(forged).await);
        assert!(message.contains("does not confirm"), "{message}");

        service.set_now("2023-11-14T22:08:19Z");
        let (_, message) = code(stage.finish(stage.callback().await).await);
        assert!(message.contains("too old"), "{message}");
    }
}

#[tokio::test]
async fn steam_says_what_the_user_or_the_operator_must_do() {
    let service = Steam::start(NOW_TEXT).await;
    let stage = steam_stage(Database::sqlite(), &service, steam::API_KEY).await;
    let tokens = stage.link().await;
    service.set_games(None);
    let (found, message) = code(stage.sync(&tokens).await);
    assert_eq!(found, FaultCode::Forbidden);
    assert!(message.contains("privacy settings"), "{message}");
    service.set_games(Some(0));
    assert_eq!(sizes(&stage.sync(&tokens).await.unwrap()), [0]);

    let wrong = steam_stage(Database::sqlite(), &service, "another key").await;
    let (found, message) = code(wrong.profile(&tokens).await);
    assert_eq!(found, FaultCode::Internal);
    assert!(message.contains("API key") && !message.contains("another key"), "{message}");
}
