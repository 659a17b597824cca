//! Linked repos: grants, invites, the pages, and writes by scripts.

mod scripts;

use std::collections::HashMap;

use belvedere_standins::jetstream::Frame;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::support::instance::{Answer, keyed_lexicon, query_lexicon};
use crate::support::oauth_pds::OauthPds;

const SCOPES: &str = "repo:com.example.note blob:image/*";
const TRIGGER: &str = "xrpc.query:com.example.use";

async fn pds(world: &World) -> OauthPds {
    let pds = OauthPds::start().await;
    for did in [ALICE, BOB] {
        world.plc.host(did, &pds.url());
    }
    pds
}

async fn post(world: &World, path: &str, body: Value) -> Answer {
    world.server.admin(Method::POST, &format!("/admin/linked-repos{path}"), Some(&body)).await
}

async fn get(world: &World, path: &str) -> Answer {
    world.server.request(Method::GET, path, &[], None).await
}

/// Like [`get`], by a client that asks for JSON.
async fn get_json(world: &World, path: &str) -> Answer {
    world.server.request(Method::GET, path, &[("accept", "application/json")], None).await
}

/// The text of an error page.
async fn error_page(world: &World, path: &str, status: u16) -> String {
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = world.server.request(Method::GET, path, &[("accept", accept)], None).await;
    assert_eq!(page.status, status, "{path} {}", page.text);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{path} {}", page.text);
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    page.text
}

/// Creates a grant. Returns its id.
async fn grant(world: &World, body: Value) -> String {
    let made = post(world, "", body).await;
    assert_eq!(made.status, 200, "{}", made.text);
    made.body["id"].as_str().unwrap().to_owned()
}

async fn status_of(world: &World, id: &str) -> Value {
    let listed = world.server.admin(Method::GET, "/admin/linked-repos", None).await.body;
    listed["linked_repos"]
        .as_array()
        .unwrap()
        .iter()
        .find(|grant| grant["id"] == id)
        .cloned()
        .unwrap_or_default()
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().unwrap().to_owned()
}

/// Creates an invite. Returns the path of its link.
async fn invite(world: &World, id: &str) -> String {
    let made = post(world, &format!("/{id}/invite"), json!({})).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let url = made.body["invite_url"].as_str().unwrap();
    url.replace(&format!("http://{}", world.server.address), "")
}

fn callback(back: &HashMap<String, String>) -> String {
    format!(
        "/auth/callback?{}",
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish()
    )
}

/// Follows an invite link as an account that consents. Returns the final redirect.
async fn follow(world: &World, pds: &OauthPds, link: &str, did: &str) -> String {
    let to = location(&get(world, &format!("{link}&handle={did}")).await);
    location(&get(world, &callback(&pds.consent(did, &to))).await)
}

async fn linked(world: &World, pds: &OauthPds, body: Value) -> String {
    let id = grant(world, body).await;
    let link = invite(world, &id).await;
    assert_eq!(follow(world, pds, &link, ALICE).await, "/link/result?status=success");
    id
}

crate::in_both_worlds!(
    a_repo_is_linked_by_its_owner,
    an_invite_is_valid_only_for_its_account,
    a_mistyped_handle_leads_back_to_the_invite,
    invalid_grants_are_refused_with_the_reason,
    a_grant_ends_when_its_account_moves
);

async fn a_repo_is_linked_by_its_owner(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES, "reason": "We <write> for you" })).await;
    let open = status_of(&world, &id).await;
    assert_eq!(
        (&open["did"], &open["status"], &open["scopes"]),
        (&json!(null), &json!("pending"), &json!(format!("atproto {SCOPES}")))
    );
    let refused = post(&world, &format!("/{id}/authorize"), json!({})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.error()),
        (400, "an open grant is authorized through an invite")
    );

    let (link, other) = (invite(&world, &id).await, invite(&world, &id).await);
    let token = link.split("token=").nth(1).unwrap();
    let info = get(&world, &format!("/auth/linked-repo/info?token={token}")).await.body;
    assert_eq!(
        (&info["valid"], &info["reason"], &info["pinned_identifier"]),
        (&json!(true), &json!("We <write> for you"), &json!(null))
    );
    let to = location(&get(&world, &link).await);
    assert_eq!(to, format!("/link/start?token={token}"));
    let page = get(&world, &to).await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    assert!(
        page.text.contains("We &#60;write&#62; for you") && page.text.contains("repo:com.example.note"),
        "{}",
        page.text
    );

    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=success");
    let done = get(&world, "/link/result?status=success").await;
    assert!(done.text.contains("Your repo is linked"), "{}", done.text);
    let active = status_of(&world, &id).await;
    assert_eq!(
        (&active["did"], &active["status"], &active["last_error"]),
        (&json!(ALICE), &json!("active"), &json!(null))
    );
    assert!(active["authorized_at"].is_string() && active.get("session_id").is_none());
    // All invites of the grant are invalid.
    for link in [&link, &other] {
        let dead = get_json(&world, &format!("{link}&handle={ALICE}")).await;
        let error = "the link has been used, was revoked, or has expired: ask its sender for another one";
        assert_eq!((dead.status.as_u16(), dead.error()), (400, error));
        assert!(
            error_page(&world, link, 400)
                .await
                .contains("The link has been used, was revoked, or has expired")
        );
    }
    assert_eq!(
        get(&world, &format!("/auth/linked-repo/info?token={token}")).await.body,
        json!({ "valid": false })
    );
    assert!(
        error_page(&world, &format!("/link/start?token={token}"), 400)
            .await
            .contains("The link has been used")
    );
    // The scopes that the owner consented to are in the client metadata.
    let declared = get(&world, "/oauth-client-metadata.json").await.body;
    assert!(declared["scope"].as_str().unwrap().contains("blob:image/*"), "{declared}");
    // Linking does not log the owner in.
    assert!(get(&world, "/auth/me").await.status == 401);
    let deleted = world.server.admin(Method::DELETE, &format!("/admin/linked-repos/{id}"), None).await;
    assert_eq!(deleted.body, json!({ "deleted": true }));
    assert_eq!(
        world.server.admin(Method::DELETE, &format!("/admin/linked-repos/{id}"), None).await.status,
        404
    );
}

async fn an_invite_is_valid_only_for_its_account(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES, "handle": ALICE })).await;
    let link = invite(&world, &id).await;
    let wrong = get_json(&world, &format!("{link}&handle={BOB}")).await;
    assert_eq!((wrong.status.as_u16(), wrong.error()), (400, "this link was issued for a different account"));
    // Another account signs in at the PDS.
    let to = location(&get(&world, &format!("{link}&handle={ALICE}")).await);
    let back = callback(&pds.consent(BOB, &to));
    assert_eq!(location(&get(&world, &back).await), "/link/result?status=failed");
    // The grant is revoked while the owner is on the consent page.
    let to = location(&get(&world, &format!("{link}&handle={ALICE}")).await);
    let listed =
        world.server.admin(Method::GET, &format!("/admin/linked-repos/{id}/invites"), None).await.body;
    let invite_id = listed["invites"][0]["invite_id"].as_str().unwrap().to_owned();
    let path = format!("/admin/linked-repos/{id}/invites/{invite_id}");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.body, json!({ "revoked": true }));
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(
        location(&get(&world, &callback(&pds.consent(ALICE, &to))).await),
        "/link/result?status=expired"
    );
    assert_eq!(status_of(&world, &id).await["status"], "pending");
    // A grant without an account can't be used by an account that already has a grant.
    let open = grant(&world, json!({ "scopes": SCOPES })).await;
    let link = invite(&world, &open).await;
    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=already_linked");
    // An admin who owns the account can authorize without an invite.
    let url = post(&world, &format!("/{id}/authorize"), json!({})).await.body["authorize_url"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        location(&get(&world, &callback(&pds.consent(ALICE, &url))).await),
        format!("/dashboard/#/linked-repos/{id}")
    );
    assert_eq!(status_of(&world, &id).await["status"], "active");
}

async fn a_mistyped_handle_leads_back_to_the_invite(world: World) {
    let pds = pds(&world).await;
    let id = grant(&world, json!({ "scopes": SCOPES })).await;
    let link = invite(&world, &id).await;
    let first_page = location(&get(&world, &link).await);
    for (handle, status, text) in [
        ("not%20a%20handle", 400, "It is neither a handle nor a DID."),
        ("nobody.example", 400, "The handle could not be resolved."),
        ("did:plc:nobodynobodynobodynobody", 502, "could not"),
    ] {
        let path = format!("{link}&handle={handle}");
        let page = error_page(&world, &path, status).await;
        assert!(page.contains(text) && page.contains(&format!("href=\"{first_page}\"")), "{handle} {page}");
        let error = get_json(&world, &path).await;
        assert_eq!(error.status, status, "{handle}");
        assert!(!error.error().is_empty(), "{handle} {}", error.text);
    }
    assert!(get(&world, &first_page).await.text.contains("name=\"handle\""), "the invite is still valid");
    // The callback of a made-up authorization ends in the dashboard.
    let failed = location(&get(&world, "/auth/callback?state=made-up").await);
    assert_eq!(location(&get(&world, &failed).await), "dashboard/#/login?error=expired");
    assert_eq!(follow(&world, &pds, &link, ALICE).await, "/link/result?status=success");
}

async fn invalid_grants_are_refused_with_the_reason(world: World) {
    let _pds = pds(&world).await;
    grant(&world, json!({ "scopes": SCOPES, "handle": ALICE })).await;
    for (body, status) in [
        (json!({}), 400),
        (json!({ "scopes": " " }), 400),
        (json!({ "scopes": "repo:not an nsid" }), 400),
        (json!({ "scopes": "wish:all" }), 400),
        (json!({ "scopes": SCOPES, "handle": "nobody.example" }), 400),
        (json!({ "scopes": SCOPES, "scripts": ["no trigger"] }), 400),
        (json!({ "scopes": SCOPES, "handle": ALICE }), 409),
    ] {
        let answer = post(&world, "", body.clone()).await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
    }
    let id = grant(&world, json!({ "scopes": SCOPES })).await;
    for (seconds, status) in [
        (json!(59), 400),
        (json!(59.9), 400),
        (json!(2_592_001), 400),
        (json!("60"), 400),
        (json!(60), 200),
        (json!(86400.0), 200),
        (json!(90.5), 200),
        (json!(null), 200),
    ] {
        let answer = post(&world, &format!("/{id}/invite"), json!({ "expires_in": seconds })).await;
        assert_eq!(answer.status, status, "{seconds} {}", answer.text);
    }
    // Any white space separates scopes, and null is the same as absence.
    let body =
        json!({ "scopes": "blob:*/*\tatproto\n repo:com.example.note", "scripts": null, "handle": null });
    let id = grant(&world, body).await;
    let shown = status_of(&world, &id).await;
    assert_eq!(
        (&shown["scopes"], &shown["scripts"]),
        (&json!("atproto blob:*/* repo:com.example.note"), &json!([]))
    );
    assert_eq!(post(&world, "/unknown/invite", json!({})).await.status, 404);
    assert_eq!(post(&world, "/unknown/authorize", json!({})).await.status, 404);
}

async fn a_grant_ends_when_its_account_moves(world: World) {
    let mut world = world.with_notes().await;
    let first = pds(&world).await;
    let id = linked(&world, &first, json!({ "scopes": SCOPES, "scripts": [TRIGGER] })).await;
    world.server.upload(query_lexicon("com.example.use"), None).await;
    world.server.bind_to(TRIGGER, &format!("function handle()
            local repo = linked_repos.get('{ALICE}')
            local ok, error = pcall(repo.create_record, repo, {{ collection = 'com.example.note', record = {{ text = 'a' }} }})
            return {{ ok = ok, code = error and error.code }} end")).await;
    let second = pds(&world).await;
    // The document is read before the write, because nothing is cached after a restart.
    world.server.stop();
    world.server.start_again().await;
    let refused = world.server.xrpc("com.example.use").await;
    assert_eq!(refused.body, json!({ "ok": false, "code": "no-session" }), "{}", refused.text);
    let needs_reauth = |grant: &Value| {
        (&grant["status"], &grant["last_error"])
            == (&json!("needs_reauth"), &json!("the account has moved to another PDS"))
    };
    let grant = status_of(&world, &id).await;
    assert!(needs_reauth(&grant), "{grant}");
    assert!(first.requests("/xrpc/com.atproto.repo").is_empty() && second.requests("/xrpc").is_empty());
    assert_eq!(world.server.records().await, 0);

    // The owner authorizes it at the new PDS. The next move is an event of the stream, and no script runs after it.
    let link = invite(&world, &id).await;
    assert_eq!(follow(&world, &second, &link, ALICE).await, "/link/result?status=success");
    assert_eq!(world.server.xrpc("com.example.use").await.body["ok"], true);
    let _third = pds(&world).await;
    world.push(|at, _| Frame::identity(at, ALICE, "alice.example"));
    world
        .server
        .eventually("the grant has ended", async |_| needs_reauth(&status_of(&world, &id).await))
        .await;
}
