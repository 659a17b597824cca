//! Linking and syncing: what crosses between the host and a plugin, and which results are refused.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{NOW, Stage, all_grants, hostile, plugin, scope};
use crate::plugins::Plugins;
use crate::plugins::accounts::{InstalledPlugins, Linkers as _};
use crate::plugins::calls::{
    CallError, CallScope, Callback, Expiry, Failure, FaultCode, Linker as _, Page, Profile, Start, Tokens,
};
use crate::plugins::limits;
use belvedere_base::clock::Timestamp;

fn tokens(access: &str) -> Tokens {
    Tokens {
        access: access.to_owned(),
        refresh: None,
        token_type: "Bearer".to_owned(),
        scope: None,
        expiry: Expiry::Never,
    }
}

impl Stage {
    async fn connect(&self, config: Value) -> Result<Tokens, CallError> {
        self.calls.of(&self.plugin).connect(&scope(), &config.to_string()).await
    }

    async fn profile(&self, config: Value) -> Result<Profile, CallError> {
        self.calls.of(&self.plugin).profile(&scope(), &tokens("abcdef"), &config.to_string()).await
    }

    async fn pull(&self, config: Value, cursor: Option<&str>) -> Result<Page, CallError> {
        self.calls.of(&self.plugin).pull(&scope(), &tokens("abcdef"), &config.to_string(), cursor).await
    }
}

/// The text of the fault of an answer that can't be used.
fn refused<T: std::fmt::Debug>(result: Result<T, CallError>) -> String {
    match result {
        Err(CallError::Fault(fault)) => {
            assert!(matches!(fault.code, FaultCode::Upstream | FaultCode::TooLarge), "{fault:?}");
            fault.message
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn texts_about_an_installed_plugin_show_none_of_its_secrets() {
    let (stage, loaded) = (Stage::set().await, plugin(hostile().await, all_grants()));
    let plugins = Plugins::with(Arc::into_inner(loaded));
    let installed = InstalledPlugins { plugins, calls: stage.calls.clone() }.get("hostile").unwrap();
    assert_eq!(installed.hide_secrets("not s3cret-value, but another"), "not [secret], but another");
}

#[tokio::test]
async fn a_sign_in_shares_values_between_its_two_calls() {
    let stage = Stage::set().await;
    let flow = |name: &str| CallScope { flow: Some(name.to_owned()), ..scope() };
    let start = Start {
        state: "state-1".to_owned(),
        redirect_uri: "https://here.example/callback".to_owned(),
        config: "{}".to_owned(),
    };
    let url = stage.calls.of(&stage.plugin).authorize_url(&flow("f1"), start.clone()).await.unwrap();
    assert_eq!(url, "https://service.example/?state=state-1");
    let callback = Callback {
        state: "state-1".to_owned(),
        redirect_uri: start.redirect_uri.clone(),
        params: vec![("code".to_owned(), "x".to_owned())],
        config: "{}".to_owned(),
    };
    let linked = stage.calls.of(&stage.plugin).handle_callback(&flow("f1"), callback.clone()).await.unwrap();
    assert_eq!(linked.access, "state-1", "kept by authorize-url");
    let other = stage.calls.of(&stage.plugin).handle_callback(&flow("f2"), callback.clone()).await.unwrap();
    assert_eq!(other.access, "access-token-1", "another sign-in has values of its own");
    let none = stage.calls.of(&stage.plugin).handle_callback(&scope(), callback).await;
    let Err(CallError::Fault(fault)) = none else { panic!("{none:?}") };
    assert_eq!(fault.code, FaultCode::NotLinked);
    let without = stage.calls.of(&stage.plugin).authorize_url(&scope(), start).await;
    assert!(matches!(without, Err(CallError::Fault(fault)) if fault.code == FaultCode::NotLinked));
}

#[tokio::test]
async fn tokens_and_profiles_cross_as_they_are() {
    let stage = Stage::set().await;
    let given =
        json!({"tokens": {"access": "a", "refresh": "r", "token_type": "mac", "scope": "s", "in": 60}});
    let linked = stage.connect(given).await.unwrap();
    let expected = Tokens {
        access: "a".to_owned(),
        refresh: Some("r".to_owned()),
        token_type: "mac".to_owned(),
        scope: Some("s".to_owned()),
        expiry: Expiry::At(NOW.plus_seconds(60)),
    };
    assert!(linked == expected, "{linked:?}");
    assert!(!format!("{linked:?}").contains("\"a\""), "tokens are not shown");
    let at = stage.connect(json!({"tokens": {"at": "2030-01-01T00:00:00+01:00"}})).await.unwrap();
    assert_eq!(at.expiry, Expiry::At(Timestamp::parse("2029-12-31T23:00:00Z").unwrap()));
    let refreshed = stage.calls.of(&stage.plugin).refresh(&scope(), &expected, "{}").await.unwrap();
    assert_eq!(refreshed.access, "a again");
    stage.calls.of(&stage.plugin).revoke(&scope(), &expected).await.unwrap();
    let unknown = stage.calls.of(&stage.plugin).revoke(&scope(), &tokens("unknown")).await;
    assert!(matches!(unknown, Err(CallError::Fault(fault)) if fault.message == "there are no such tokens"));
    let profile = stage.profile(json!({"profile": {"display_name": "Alice"}})).await.unwrap();
    assert_eq!((profile.account_id.as_str(), profile.display_name.as_deref()), ("abcdef", Some("Alice")));
    let page = stage.pull(json!({"items": 2, "endless": true}), Some("7")).await.unwrap();
    assert_eq!((page.items.len(), page.next.as_deref()), (2, Some("8")));
    assert_eq!(page.items[1].dedup_key.as_deref(), Some("1"));
}

#[tokio::test]
async fn results_that_nothing_can_store_are_faults_and_no_traps() {
    let stage = Stage::set().await;
    let long = "x".repeat(limits::TOKEN_BYTES + 1);
    for (given, expected) in [
        (json!({"access": ""}), "the access token"),
        (json!({"access": "a\0b"}), "the access token"),
        (json!({"access": long}), "the access token"),
        (json!({"refresh": "\0"}), "the refresh token"),
        (json!({"token_type": ""}), "token-type"),
        (json!({"scope": "\0"}), "the scope"),
        (json!({"at": "tomorrow"}), "RFC 3339"),
    ] {
        let text = refused(stage.connect(json!({"tokens": given})).await);
        assert!(text.contains(expected), "{text}");
    }
    for (given, expected) in [
        (json!({"account_id": ""}), "account-id"),
        (json!({"account_id": "\0"}), "account-id"),
        (json!({"display_name": "a\0"}), "display-name"),
    ] {
        let text = refused(stage.profile(json!({"profile": given})).await);
        assert!(text.contains(expected), "{text}");
    }
    let named = json!({"display_name": "", "profile_url": "javascript:alert(1)", "avatar_url": ""});
    let profile = stage.profile(json!({"profile": named})).await.unwrap();
    assert_eq!((profile.display_name, profile.profile_url, profile.avatar_url), (None, None, None));
    for (config, expected) in [
        (json!({"items": limits::PAGE_ITEMS + 1}), "1001 items"),
        (json!({"next": "\0"}), "next"),
        (json!({"next": "x".repeat(limits::CURSOR_BYTES + 1)}), "next"),
    ] {
        let text = refused(stage.pull(config, None).await);
        assert!(text.contains(expected), "{text}");
    }
    // A service with one bad item is not down: the sync leaves out the item.
    for config in [
        json!({"items": 1, "collection": "a\0"}),
        json!({"items": 1, "value": "{"}),
        json!({"items": 1, "size": limits::RECORD_BYTES}),
    ] {
        assert_eq!(stage.pull(config, None).await.unwrap().items.len(), 1);
    }
    match stage.pull(json!({"items": 20, "size": 1_000_000}), None).await {
        Err(CallError::Failed(Failure { text, .. })) => assert!(text.contains("fuel"), "{text}"),
        other => panic!("{other:?}"),
    }
    let start = |url: &str| Start {
        state: "s".to_owned(),
        redirect_uri: "https://here.example/".to_owned(),
        config: json!({"url": url}).to_string(),
    };
    let flow = CallScope { flow: Some("f".to_owned()), ..scope() };
    for url in ["javascript:alert(1)", "no url", "https://a\0.example"] {
        let text = refused(stage.calls.of(&stage.plugin).authorize_url(&flow, start(url)).await);
        assert!(text.contains("the authorize URL"), "{text}");
    }
}

#[tokio::test]
async fn texts_of_faults_are_cut() {
    let stage = Stage::set().await;
    let (_, message) = stage.fault("fault", json!("a\0".repeat(limits::TEXT_BYTES))).await;
    assert_eq!(message, "a".repeat(limits::TEXT_BYTES));
}

#[tokio::test]
async fn errors_and_log_lines_show_no_tokens_and_nothing_that_users_typed() {
    let stage = Stage::set().await;
    // The plugin is asked for a fault with text that its configuration has.
    match stage.connect(json!({"do": "typed-password"})).await {
        Err(CallError::Fault(fault)) => assert_eq!(fault.message, "there is no [config]"),
        other => panic!("{other:?}"),
    }
    // It logs the tokens that it is about to return. Parts of them are too short to be hidden themselves.
    let parts = json!(["acces", "s-tok", "en-1"]);
    stage.connect(json!({"do": "log", "with": {"parts": parts}})).await.unwrap();
    let lines = stage.events("plugin.log").await;
    let detail: Value = serde_json::from_str(&lines[0].detail).unwrap();
    assert_eq!(detail["message"], "[access token]");
    // A secret at the end of what a line shows.
    stage.act("log_secret", json!(limits::LOG_LINE_BYTES - 6)).await.unwrap();
    let lines = stage.events("plugin.log").await;
    assert!(!lines.iter().any(|line| line.detail.contains("s3cret")), "{lines:?}");
}
