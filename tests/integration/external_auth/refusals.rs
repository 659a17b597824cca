//! Requests that are refused: without a session, with other redirects, and callbacks that no sign-in of this browser began.

use super::*;

on_both!(
    only_users_with_a_session_link_accounts,
    the_redirect_must_belong_to_the_application,
    a_callback_that_this_browser_did_not_begin_links_nothing,
    a_sign_in_that_fails_leads_back_to_the_application
);

async fn only_users_with_a_session_link_accounts(stage: Stage) {
    let server = stage.server();
    let key = format!("Bearer {}", server.admin_key);
    for (method, path) in [
        (Method::GET, "accounts"),
        (Method::GET, "probe/authorize"),
        (Method::POST, "probe/connect"),
        (Method::POST, "probe/sync"),
        (Method::POST, "probe/refresh"),
        (Method::POST, "probe/unlink"),
    ] {
        let path = format!("/external-auth/{path}");
        for headers in [
            &[][..],
            &[("x-client-key", stage.app.key.as_str())][..],
            &[("x-client-key", stage.app.key.as_str()), ("authorization", "Bearer x.y.z")][..],
            &[("authorization", key.as_str())][..],
            &[("x-client-key", stage.app.key.as_str()), ("authorization", "DPoP x"), ("dpop", "y")][..],
        ] {
            let answer = server.request(method.clone(), &path, headers, None).await;
            assert_eq!(answer.status, 401, "{path} {headers:?} {}", answer.text);
            assert!(!answer.error().is_empty());
        }
    }
    // Preflights and answers are those of XRPC.
    let origin = [("origin", "https://game.example"), ("access-control-request-method", "POST")];
    let preflight = server.request(Method::OPTIONS, "/external-auth/probe/sync", &origin, None).await;
    assert_eq!(preflight.status, 204);
    let providers = server.request(Method::GET, "/external-auth/providers", &origin[..1], None).await;
    assert_eq!(providers.headers["access-control-allow-origin"], "https://game.example");
    // A call takes from the client's bucket.
    let counted = stage.alice(Method::GET, "accounts", None).await;
    assert!(counted.headers.contains_key("ratelimit-remaining"));
}

async fn the_redirect_must_belong_to_the_application(stage: Stage) {
    let registered = App::with(stage.server(), json!({ "name": "phone", "client_id_url": "https://phone.example/client.json",
        "client_uri": "https://phone.example/app", "redirect_uris": ["com.example.phone:/back"], "scopes": "atproto",
        "allowed_origins": ["https://pages.example"] })).await;
    let phone = registered.device(stage.server(), &stage.pds, ALICE, json!({ "scopes": "atproto" })).await;
    let begin = async |to: &str| {
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).append_pair("redirect_uri", to).finish();
        phone
            .request(stage.server(), Method::GET, &format!("/external-auth/probe/authorize?{query}"), None)
            .await
    };
    for good in ["com.example.phone:/back", "https://phone.example/anywhere?x=y", "https://pages.example/"] {
        let answer = begin(good).await;
        assert_eq!(answer.status, 200, "{good} {}", answer.text);
    }
    for bad in [
        "",
        "/dashboard/",
        "com.example.phone:/other",
        "https://evil.example/",
        "http://phone.example/",
        "https://phone.example:444/",
        "https://phone.example@evil.example/",
        "https://user:pw@phone.example/",
        "javascript:alert(1)",
        "https://phone.example/\r\nx",
        &format!("https://phone.example/{}", "a".repeat(3_000)),
    ] {
        assert_eq!(begin(bad).await.status, 400, "{bad}");
    }
    let missing = phone.request(stage.server(), Method::GET, "/external-auth/probe/authorize", None).await;
    assert_eq!(missing.status, 400);
    let other = phone.request(stage.server(), Method::GET, "/external-auth/probe/authorize?redirect_uri=com.example.phone:/back&collections=com.example.other", None).await;
    assert!(other.status == 400 && other.error().contains("com.example.other"), "{}", other.text);
    let connect = stage.alice(Method::POST, "probe/connect", Some(&json!({ "config": {} }))).await;
    assert_eq!(connect.status, 400, "{}", connect.text);
}

async fn a_callback_that_this_browser_did_not_begin_links_nothing(stage: Stage) {
    let server = stage.server();
    let page = stage.begin().await;
    let mut victim = Browser::default();
    // A form of another site, or a request without any sign of the page it comes from.
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")][..],
        &[("sec-fetch-site", "cross-site")][..],
        &[][..],
    ] {
        let forged = server.request(Method::POST, &page, headers, None).await;
        assert_eq!(forged.status, 403, "{headers:?} {}", forged.text);
    }
    let mut attacker = Browser::default();
    let back = stage.sign_in(&mut attacker, &page, "765").await;
    // The first browser has the sign-in.
    assert_eq!(victim.post(server, &page, &json!({})).await.status, 400);
    let refused = async |browser: &mut Browser, path: &str| {
        let answer = browser.get(server, path).await;
        assert_eq!(answer.status, 400, "{path} {}", answer.text);
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"));
        assert!(answer.text.contains("begin again"), "{}", answer.text);
    };
    refused(&mut victim, &back).await;
    refused(&mut attacker, "/external-auth/probe/callback?state=forged&code=x").await;
    refused(&mut attacker, "/external-auth/probe/callback?code=x").await;
    refused(&mut attacker, "/external-auth/probe/start?state=forged").await;
    assert_eq!(attacker.get(server, &back.replace("probe", "other")).await.status, 404);
    assert!(stage.accounts().await.is_empty());
    assert_eq!(stage.service.count("token"), 0);
    let events = stage.events("link_failed").await;
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[0]["actor_did"], json!(null));
    // The right browser, once.
    assert_eq!(location(&attacker.get(server, &back).await), format!("{BACK}?auth=success"));
    refused(&mut attacker, &back).await;
    assert_eq!(stage.accounts().await.len(), 1);
}

async fn a_sign_in_that_fails_leads_back_to_the_application(stage: Stage) {
    let server = stage.server();
    let fails = async |change: &dyn Fn(String) -> String| {
        let mut browser = Browser::default();
        let page = stage.begin().await;
        let back = stage.sign_in(&mut browser, &page, "765").await;
        location(&browser.get(server, &change(back)).await)
    };
    let denied = fails(&|back| format!("{back}&error=access_denied")).await;
    assert_eq!(denied, format!("{BACK}?auth=error&message=you+did+not+allow+the+connection"));
    let wrong = fails(&|back| back.replace("code-", "wrong-")).await;
    assert!(wrong.starts_with(&format!("{BACK}?auth=error&message=")), "{wrong}");
    stage.service.fail("me", 503);
    assert!(fails(&|back| back).await.contains("status+503"));
    assert!(stage.accounts().await.is_empty());
    assert_eq!(stage.events("link_failed").await.len(), 3);
}
