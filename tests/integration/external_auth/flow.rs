//! The whole story: link, list, refresh, unlink; by a device of an application, and by a user of the dashboard.

use super::*;
use crate::support::instance::OPERATOR;

on_both!(an_account_is_linked_and_unlinked, a_user_of_the_dashboard_links_with_their_login);

async fn an_account_is_linked_and_unlinked(stage: Stage) {
    let server = stage.server();
    let providers = server.request(Method::GET, "/external-auth/providers", &[], None).await;
    assert_eq!(
        providers.body,
        json!([{ "id": "probe", "name": "Probe", "icon_url": null, "auth_type": "oauth2" }])
    );
    assert!(stage.accounts().await.is_empty());

    let page = stage.begin().await;
    let mut browser = Browser::default();
    let shown = browser.get(server, &page).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    for text in ["Probe", ALICE, "com.example.note", "localhost", "If that is not you"] {
        assert!(shown.text.contains(text), "{text}: {}", shown.text);
    }
    let policy = shown.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("default-src 'none'")
            && policy.contains("frame-ancestors 'none'")
            && !policy.contains("form-action")
    );
    // Browsers hide the origin of forms on a page with no-referrer.
    assert_eq!(shown.headers["referrer-policy"], "same-origin");
    let back = stage.sign_in(&mut browser, &page, "765").await;
    assert_eq!(location(&browser.get(server, &back).await), format!("{BACK}?auth=success"));

    let accounts = stage.accounts().await;
    assert_eq!(accounts.len(), 1);
    let account = &accounts[0];
    assert_eq!(
        (
            &account["plugin_id"],
            &account["account_id"],
            &account["display_name"],
            &account["status"],
            &account["expires_at"]
        ),
        (&json!("probe"), &json!("765"), &json!("Name of 765"), &json!("linked"), &json!(null)),
    );
    assert_eq!(account["collections"], json!(["com.example.note"]));
    assert!(account["created_at"].is_string() && !accounts[0].to_string().contains("access-"));

    // An admin who may see users and plugins sees the owner of an account.
    let all = server.admin(Method::GET, "/admin/plugins/probe/accounts", None).await;
    assert_eq!(
        (&all.body["accounts"][0]["did"], &all.body["cursor"]),
        (&json!(ALICE), &json!(null)),
        "{}",
        all.text
    );
    assert!(all.body["accounts"][0]["account_id"] == "765" && !all.text.contains("access-"), "{}", all.text);
    let next = server.admin(Method::GET, "/admin/plugins/probe/accounts?limit=1&cursor=zzz", None).await;
    assert_eq!(next.body, json!({ "accounts": [], "cursor": null }));
    assert_eq!(server.admin(Method::GET, "/admin/plugins/unknown/accounts", None).await.status, 404);
    let few = server.create_key(&["--did", BOB, "--permissions", "plugins:read"]);
    let headers = [("authorization", &*format!("Bearer {few}"))];
    let refused = server.request(Method::GET, "/admin/plugins/probe/accounts", &headers, None).await;
    assert_eq!(refused.status, 403, "{}", refused.text);

    let linked = &stage.events("linked").await[0];
    assert_eq!(
        (&linked["actor_did"], &linked["subject"], &linked["detail"]["account_id"]),
        (&json!(ALICE), &json!("probe"), &json!("765"))
    );

    // The tokens of this service do not expire.
    let fresh = stage.alice(Method::POST, "probe/refresh", None).await;
    assert_eq!(
        (fresh.status.as_u16(), &fresh.body),
        (200, &json!({ "refreshed": false, "expires_at": null }))
    );
    // Linking again with tokens that expire within a minute.
    stage.service.expire_in(Some(30));
    stage.link("765").await;
    stage.service.expire_in(Some(3_600));
    let refreshed = stage.alice(Method::POST, "probe/refresh", None).await;
    assert_eq!(
        (refreshed.status.as_u16(), &refreshed.body["refreshed"]),
        (200, &json!(true)),
        "{}",
        refreshed.text
    );
    assert!(refreshed.body["expires_at"].is_string());
    assert_eq!(stage.service.refreshes(), (1, 0));

    let unlinked = stage.alice(Method::POST, "probe/unlink", None).await;
    assert_eq!(unlinked.body, json!({ "status": "ok", "was_linked": true }), "{}", unlinked.text);
    assert!(stage.accounts().await.is_empty());
    server.eventually("the tokens are revoked", async |_| stage.service.count("revoke") == 1).await;
    let again = stage.alice(Method::POST, "probe/unlink", None).await;
    assert_eq!(again.body, json!({ "status": "ok", "was_linked": false }));
    for (path, status) in
        [("probe/refresh", 404), ("probe/sync", 404), ("unknown/unlink", 404), ("unknown/sync", 404)]
    {
        assert_eq!(stage.alice(Method::POST, path, None).await.status, status, "{path}");
    }
}

async fn a_user_of_the_dashboard_links_with_their_login(stage: Stage) {
    stage.world.plc.host(OPERATOR, &stage.pds.url());
    let server = stage.server();
    let mut browser = Browser::default();
    assert_eq!(location(&browser.login(server, &stage.pds, OPERATOR).await), "/page");
    for bad in ["https://game.example/linked", "//evil.example/", "javascript:alert(1)"] {
        let refused =
            browser.get(server, &format!("/external-auth/probe/authorize?redirect_uri={bad}")).await;
        assert_eq!(refused.status, 400, "{bad} {}", refused.text);
    }
    let begun = browser.get(server, "/external-auth/probe/authorize?redirect_uri=/dashboard/").await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    let page = stage.path_of(begun.body["authorize_url"].as_str().unwrap());
    let back = stage.sign_in(&mut browser, &page, "766").await;
    let to = location(&browser.get(server, &back).await);
    assert_eq!(stage.path_of(&to), "/dashboard/?auth=success");
    let accounts = browser.get(server, "/external-auth/accounts").await;
    assert_eq!(accounts.body[0]["account_id"], "766");
    // A write with the cookie must come from our own pages.
    let stolen = server
        .request(
            Method::POST,
            "/external-auth/probe/unlink",
            &[("cookie", "x=y"), ("origin", "https://evil.example")],
            None,
        )
        .await;
    assert_eq!(stolen.status, 401);
    let unlinked = browser.post(server, "/external-auth/probe/unlink", &json!({})).await;
    assert_eq!(unlinked.body["was_linked"], true, "{}", unlinked.text);
}
