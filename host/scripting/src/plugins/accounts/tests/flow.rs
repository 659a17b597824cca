//! Signing in: bound to the browser and the plugin, once, for ten minutes.

use super::fake::fault;
use super::*;
use crate::plugins::accounts::AccountError;
use crate::plugins::calls::{CallError, Failure, FailureCause, FaultCode};
use crate::plugins::registry::PluginStatus;
use belvedere_storage::store::external_auth_states;

const BACK: &str = "https://app.example/back";
const CALLBACK: &str = "https://own.example/external-auth/fake/callback";

async fn begin(stage: &Stage) -> String {
    stage.accounts.begin(&user(ALICE), "fake", BACK.to_owned(), None).await.unwrap()
}

async fn consent(stage: &Stage, token: &str, browser: &str) -> Result<String, AccountError> {
    let url = stage.accounts.consent("fake", token, browser, CALLBACK.to_owned()).await?;
    Ok(url.as_str().to_owned())
}

async fn complete(
    stage: &Stage,
    browser: &str,
    params: &[(&str, &str)],
) -> Result<Result<(), String>, AccountError> {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let done = stage.accounts.complete("fake", browser, CALLBACK.to_owned(), params).await?;
    assert_eq!(done.redirect_uri, BACK);
    Ok(done.outcome)
}

fn is_unknown<T: std::fmt::Debug>(answer: Result<T, AccountError>) {
    assert!(matches!(answer, Err(AccountError::State)), "{answer:?}");
}

on_both!(
    an_account_is_linked_by_the_browser_in_which_the_user_consented,
    a_sign_in_ends_after_ten_minutes_and_with_what_the_plugin_kept_for_it,
    a_user_has_five_open_sign_ins_at_a_plugin,
    a_failed_sign_in_leads_back_with_a_message,
    the_plugin_must_be_one_that_signs_users_in_and_is_in_use
);

async fn an_account_is_linked_by_the_browser_in_which_the_user_consented(stage: Stage) {
    let state = begin(&stage).await;
    let view = stage.accounts.view("fake", &state).await.unwrap();
    assert_eq!((view.plugin.as_str(), view.did.as_str()), ("Fake", ALICE));
    assert_eq!(view.collections, [NOTE, LOOSE]);
    assert_eq!(view.hosts.unwrap(), ["api.fake.example"]);
    let good = [("state", state.as_str()), ("code", "good"), ("session_state", "x")];
    // The user has not consented yet.
    is_unknown(complete(&stage, "browser", &good).await);
    is_unknown(complete(&stage, "", &good).await);
    let url = consent(&stage, &state, "browser").await.unwrap();
    assert_eq!(url, format!("https://fake.example/login?state={state}&redirect_uri={CALLBACK}"));
    // The first browser has it. The same one may go back and consent again.
    is_unknown(consent(&stage, &state, "other").await);
    consent(&stage, &state, "browser").await.unwrap();

    is_unknown(complete(&stage, "other", &good).await);
    is_unknown(complete(&stage, "browser", &[("code", "good")]).await);
    is_unknown(complete(&stage, "browser", &[("state", "forged"), ("code", "good")]).await);
    let long = "s".repeat(10_000);
    is_unknown(complete(&stage, "browser", &[("state", &long), ("code", "good")]).await);
    assert!(stage.found().await.is_none());
    assert_eq!(complete(&stage, "browser", &good).await.unwrap(), Ok(()));
    is_unknown(complete(&stage, "browser", &good).await);

    let row = stage.row().await;
    assert_eq!((row.account_id.as_str(), row.display_name.as_deref()), ("765", Some("Name of 765")));
    assert_eq!((row.collections.len(), row.oauth_session_id.as_deref()), (2, Some(ALICE)));
    let linked = stage.events_of("linked").await;
    assert_eq!(linked, [json!({ "account_id": "765", "collections": [NOTE, LOOSE], "replaced": null })]);
    // Sealed: the row holds none of the tokens.
    let columns = [&row.access_token, row.refresh_token.as_ref().unwrap()];
    let has = |text: &str| {
        columns.iter().any(|column| column.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    assert!(!has("access-1") && !has("refresh-1"));
    assert_ne!(row.config, b"{}", "two bytes turn up in sealed ones by chance, so not as a part");
    // Calls of the sign-in are of one flow, and of the user.
    let scopes = stage.service.state().scopes.clone();
    let flows: Vec<_> = scopes.iter().map(|scope| scope.flow.clone().unwrap()).collect();
    assert!(flows.iter().all(|flow| *flow == flows[0]), "{flows:?}");
    assert!(
        scopes
            .iter()
            .all(|scope| scope.did.as_ref().unwrap().as_str() == ALICE
                && scope.tenant == Tenant::client("app"))
    );
}

async fn a_sign_in_ends_after_ten_minutes_and_with_what_the_plugin_kept_for_it(stage: Stage) {
    let state = begin(&stage).await;
    consent(&stage, &state, "browser").await.unwrap();
    let flow = stage.service.state().scopes[0].flow.clone().unwrap();
    stage.keep_value("flow", &flow, None).await;
    stage.keep_value("account", ALICE, None).await;
    stage.keep_value("account", BOB, Some(NOW.plus_seconds(30))).await;
    stage.accounts.sweep().await.unwrap();
    stage.pass(599);
    stage.accounts.sweep().await.unwrap();
    assert_eq!(stage.values().await, [format!("account {ALICE}"), format!("flow {flow}")]);
    assert!(stage.accounts.view("fake", &state).await.is_ok());
    stage.pass(1);
    is_unknown(stage.accounts.view("fake", &state).await);
    is_unknown(consent(&stage, &state, "browser").await);
    is_unknown(complete(&stage, "browser", &[("state", &state), ("code", "good")]).await);
    stage.accounts.sweep().await.unwrap();
    // The values of the flow go a little later, because the call that completes it may be running.
    stage.pass(300);
    stage.accounts.sweep().await.unwrap();
    assert_eq!(stage.values().await, [format!("account {ALICE}")]);
    assert!(stage.found().await.is_none());
    // A sign-in that is completed takes its values with it at once.
    let state = begin(&stage).await;
    consent(&stage, &state, "browser").await.unwrap();
    let flow = stage.service.state().scopes.last().unwrap().flow.clone().unwrap();
    stage.keep_value("flow", &flow, None).await;
    complete(&stage, "browser", &[("state", &state), ("code", "good")]).await.unwrap().unwrap();
    assert_eq!(stage.values().await, [format!("account {ALICE}")]);
}

async fn a_user_has_five_open_sign_ins_at_a_plugin(stage: Stage) {
    let mut states = Vec::new();
    for _ in 0..6 {
        stage.pass(1);
        states.push(begin(&stage).await);
    }
    stage.accounts.begin(&user(BOB), "fake", BACK.to_owned(), None).await.unwrap();
    is_unknown(stage.accounts.view("fake", &states[0]).await);
    for state in &states[1..] {
        assert!(stage.accounts.view("fake", state).await.is_ok());
    }
    stage.pass(600);
    assert_eq!(external_auth_states::prune(&stage.db, stage.clock.now(), NOW).await.unwrap(), 6);
}

async fn a_failed_sign_in_leads_back_with_a_message(stage: Stage) {
    let failed = async |params: &[(&str, &str)]| {
        let state = begin(&stage).await;
        consent(&stage, &state, "browser").await.unwrap();
        let mut params = params.to_vec();
        params.push(("state", &state));
        let outcome = complete(&stage, "browser", &params).await.unwrap();
        is_unknown(complete(&stage, "browser", &params).await);
        outcome.unwrap_err()
    };
    assert_eq!(
        failed(&[("error", "access_denied"), ("code", "good")]).await,
        "you did not allow the connection"
    );
    assert_eq!(failed(&[("error", "<script>")]).await, "the service refused the connection");
    assert_eq!(stage.service.count("handle_callback"), 0);
    assert_eq!(failed(&[("code", "wrong")]).await, "the code is wrong");
    stage.service.fail("handle_callback", CallError::Failed(Failure::new(FailureCause::Trap, "trap at 0x1")));
    assert_eq!(failed(&[("code", "good")]).await, "the plugin failed: it trapped");
    stage.service.fail("profile", fault(FaultCode::Upstream, "no\0profile"));
    assert_eq!(failed(&[("code", "good")]).await, "noprofile");
    stage.service.sign_in_as("a b");
    assert!(failed(&[("code", "good")]).await.contains("the account's id"));
    assert!(stage.found().await.is_none());
    assert_eq!(stage.service.count("revoke"), 2, "tokens that could not be stored");
    let reasons = stage.events_of("link_failed").await;
    assert_eq!(reasons.len(), 6);
    assert_eq!(reasons[3], json!({ "reason": "trap at 0x1" }));
}

async fn the_plugin_must_be_one_that_signs_users_in_and_is_in_use(stage: Stage) {
    let begin = async |plugin: &str, collections: Option<&[&str]>| {
        let collections = collections.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        stage.accounts.begin(&user(ALICE), plugin, BACK.to_owned(), collections).await
    };
    assert!(matches!(begin("unknown", None).await, Err(AccountError::UnknownPlugin(_))));
    let connect = stage.accounts.connect(&user(ALICE), "fake", &json!({}), None).await;
    assert!(matches!(connect, Err(AccountError::OtherKind(_))), "{connect:?}");
    for (collections, good) in [
        (Some(&[][..]), true),
        (Some(&[NOTE][..]), true),
        (Some(&[NOTE, NOTE, LOOSE][..]), true),
        (Some(&["com.example.other"][..]), false),
        (Some(&["\0"][..]), false),
    ] {
        let answer = begin("fake", collections).await;
        assert_eq!(answer.is_ok(), good, "{collections:?} {answer:?}");
    }
    stage.service.state().authorize_url = "http://fake.example/login".to_owned();
    let state = begin("fake", None).await.unwrap();
    let unsafe_url = consent(&stage, &state, "browser").await;
    assert!(matches!(unsafe_url, Err(AccountError::Answer(_))), "{unsafe_url:?}");

    assert_eq!(stage.accounts.providers().len(), 1);
    stage.service.state().status = PluginStatus::Paused;
    assert!(matches!(begin("fake", None).await, Err(AccountError::Paused)));
    assert!(matches!(consent(&stage, &state, "browser").await, Err(AccountError::Paused)));
    stage.service.state().status = PluginStatus::Removing;
    assert!(matches!(begin("fake", None).await, Err(AccountError::UnknownPlugin(_))));
    assert!(stage.accounts.providers().is_empty());
    stage.service.state().status = PluginStatus::Active;
    stage.service.state().exports.linking = false;
    assert!(matches!(begin("fake", None).await, Err(AccountError::UnknownPlugin(_))));
    assert!(stage.accounts.providers().is_empty());
}
