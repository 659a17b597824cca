//! `/xrpc/dev.service.*`: users manage their API clients and the accounts that they share.

mod children;

use crate::fixtures::World;
use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES};
use crate::oauth::device::{App, Device, SCOPES, pds};
use crate::support::instance::{Answer, Instance, procedure_lexicon};

async fn get(server: &Instance, device: &Device, method: &str) -> Answer {
    device.request(server, Method::GET, &format!("/xrpc/dev.service.{method}"), None).await
}

async fn post(server: &Instance, device: &Device, method: &str, body: Value) -> Answer {
    device.request(server, Method::POST, &format!("/xrpc/dev.service.{method}"), Some(&body)).await
}

fn child(name: &str) -> Value {
    json!({ "name": name, "clientIdUrl": format!("https://{name}.example/client.json"),
        "clientUri": format!("https://{name}.example"), "redirectUris": [format!("https://{name}.example/back")] })
}

const TEAM: &str = "did:plc:teamteamteamteamteamteam";

/// Makes `owner` the owner of the shared account of the session `shared`.
async fn link(server: &Instance, owner: &Device, shared: &Device, account: &str) {
    let proof = shared.proof(server, &Method::POST, "/xrpc/dev.service.delegation.linkAccount");
    let body = json!({ "did": account, "accountToken": shared.token, "accountProof": proof });
    let linked = post(server, owner, "delegation.linkAccount", body).await;
    assert_eq!(linked.status, 201, "{}", linked.text);
}

crate::in_both_worlds!(
    a_client_key_without_a_proof_gives_no_session,
    an_account_lists_and_ends_its_delegations,
    management_requires_a_dpop_session,
    an_account_is_shared_only_with_its_own_session
);

async fn a_client_key_without_a_proof_gives_no_session(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let pds = pds(&world, &[ALICE, TEAM]).await;
    let app = App::confidential(server, "app").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    link(server, &device, &app.device(server, &pds, TEAM, json!({})).await, TEAM).await;
    for nsid in ["com.example.put", "com.example.script", "com.example.nested"] {
        server.upload(procedure_lexicon(nsid), Some(NOTES)).await;
    }
    server
        .bind_to(
            "xrpc.procedure:com.example.script",
            "function handle() \
        local ok = pcall(function() Record(collection, { text = 'x' }):save() end) return { ok = ok } end",
        )
        .await;
    server.bind_to("xrpc.procedure:com.example.nested", "function handle() \
        return { status = xrpc.procedure('com.example.put', { text = 'x', delegateDid = input.to }).status } end").await;
    let writes = || pds.requests("/xrpc/com.atproto.repo").len();

    // With a proof, writes work for the user and for the shared account.
    let proven = async |nsid: &str, body: Value| {
        device.request(server, Method::POST, &format!("/xrpc/{nsid}"), Some(&body)).await
    };
    for more in [json!({}), json!({ "delegateDid": TEAM })] {
        assert_eq!(proven("com.example.put", more.clone()).await.status, 200);
        assert_eq!(proven("com.example.script", more).await.body["ok"], true);
    }
    for to in [json!(null), json!(TEAM)] {
        assert_eq!(proven("com.example.nested", json!({ "to": to })).await.body["status"], 200);
    }
    let before = writes();
    assert_eq!(before, 6);

    // With a service token the user is known, but the client key gives no access to the user's sessions.
    let named = async |nsid: &str, body: Value| {
        let token = format!("Bearer {}", alice.token(&server.did(), json!({})));
        let headers = [("x-client-key", &*app.key), ("authorization", &*token)];
        server.request(Method::POST, &format!("/xrpc/{nsid}"), &headers, Some(body.to_string())).await
    };
    let own = named("com.example.put", json!({})).await;
    assert_eq!(
        (own.status.as_u16(), own.error()),
        (401, "calls to a PDS take a proof of a session: authenticate with DPoP")
    );
    let blob = named("com.atproto.repo.uploadBlob", json!({})).await;
    assert_eq!(blob.status, 401, "{}", blob.text);
    assert_eq!(named("com.example.script", json!({})).await.body["ok"], false);
    for nsid in ["com.example.put", "com.example.script"] {
        let shared = named(nsid, json!({ "delegateDid": TEAM })).await;
        assert_eq!(
            (shared.status.as_u16(), shared.error()),
            (403, "delegateDid is for users of an application who call with DPoP")
        );
    }
    assert_eq!(named("com.example.nested", json!({})).await.body["status"], 401);
    assert_eq!(named("com.example.nested", json!({ "to": TEAM })).await.body["status"], 403);
    assert_eq!(
        named("dev.service.delegation.unlinkAccount", json!({ "did": TEAM })).await.error(),
        "requires DPoP authentication"
    );
    assert_eq!(writes(), before, "nothing reached the PDS");
}

async fn an_account_lists_and_ends_its_delegations(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let pds = pds(&world, &[ALICE, BOB, TEAM]).await;
    let app = App::confidential(server, "app").await;
    let alice = app.device(server, &pds, ALICE, json!({})).await;
    let bob = app.device(server, &pds, BOB, json!({})).await;
    let (shared, elsewhere) =
        (app.device(server, &pds, TEAM, json!({})).await, app.device(server, &pds, TEAM, json!({})).await);
    let get_account = format!("delegation.getAccount?did={TEAM}");
    assert_eq!(get(server, &shared, &get_account).await.error(), "delegated account not found");
    link(server, &alice, &shared, TEAM).await;
    let add = json!({ "accountDid": TEAM, "userDid": BOB, "role": "admin" });
    assert_eq!(
        post(server, &shared, "delegation.addDelegate", add.clone()).await.status,
        403,
        "that is the owner's"
    );
    assert_eq!(post(server, &alice, "delegation.addDelegate", add).await.status, 201);
    server.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
    let write = async |device: &Device| {
        let body = json!({ "text": "ours", "delegateDid": TEAM });
        device.request(server, Method::POST, "/xrpc/com.example.put", Some(&body)).await.status.as_u16()
    };
    assert_eq!((write(&alice).await, write(&bob).await), (200, 200));

    let seen = get(server, &shared, &get_account).await;
    assert_eq!(
        (&seen.body["role"], &seen.body["linkedBy"]),
        (&json!("account"), &json!(ALICE)),
        "{}",
        seen.text
    );
    let list = get(server, &shared, &format!("delegation.listDelegates?accountDid={TEAM}")).await;
    let users: Vec<_> =
        list.body["delegates"].as_array().unwrap().iter().map(|d| d["userDid"].clone()).collect();
    assert_eq!(users, [ALICE, BOB]);
    let remove = async |user: &str| {
        post(server, &shared, "delegation.removeDelegate", json!({ "accountDid": TEAM, "userDid": user }))
            .await
            .status
            .as_u16()
    };
    assert_eq!((remove(ALICE).await, remove(BOB).await), (403, 200), "the owner goes with the whole");
    assert_eq!((write(&alice).await, write(&bob).await), (200, 403));
    let unlink = async |device: &Device| {
        post(server, device, "delegation.unlinkAccount", json!({ "did": TEAM })).await.status.as_u16()
    };
    assert_eq!((unlink(&bob).await, unlink(&shared).await), (403, 200));
    assert_eq!((write(&alice).await, unlink(&shared).await), (404, 404));
    // Only the session that made the call stays logged in.
    let session = format!("/oauth/sessions/{TEAM}");
    assert_eq!(shared.request(server, Method::GET, &session, None).await.status, 200);
    assert_eq!(elsewhere.request(server, Method::GET, &session, None).await.status, 401);
    let events =
        server.admin(Method::GET, "/admin/events?event_type=delegation.account_unlinked", None).await;
    assert_eq!(events.body["events"].as_array().map(Vec::len), Some(1), "{}", events.text);
}

async fn management_requires_a_dpop_session(world: World) {
    let server = &world.server;
    let app = App::confidential(server, "parent").await;
    let path = "/xrpc/dev.service.listApiClients";
    for (headers, error) in [
        (vec![("x-client-key", &*app.key)], "requires DPoP authentication"),
        (vec![("x-client-key", &*app.key), ("authorization", "Bearer x")], "requires DPoP authentication"),
        (vec![("authorization", "DPoP x")], "requires an API client key"),
        (vec![("authorization", "DPoP x"), ("x-client-key", "bvc_x")], "Invalid client"),
        (vec![("authorization", "DPoP x"), ("x-client-key", &*app.key)], "DPoP auth requires DPoP header"),
    ] {
        let answer = server.request(Method::GET, path, &headers, None).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (401, error), "{headers:?}");
    }
}

async fn an_account_is_shared_only_with_its_own_session(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let team = TEAM;
    let pds = pds(&world, &[ALICE, BOB, team]).await;
    let app = App::confidential(server, "parent").await;
    let alice = app.device(server, &pds, ALICE, json!({})).await;
    let bob = app.device(server, &pds, BOB, json!({})).await;
    let shared = app.device(server, &pds, team, json!({})).await;
    let link = async |proof: Option<&str>, token: &str, did: &str| {
        let body = json!({ "did": did, "accountToken": token, "accountProof": proof });
        post(server, &alice, "delegation.linkAccount", body).await
    };
    let path = "/xrpc/dev.service.delegation.linkAccount";
    let proof = || shared.proof(server, &Method::POST, path);
    assert_eq!(link(Some(&proof()), &shared.token, ALICE).await.error(), "you can't link your own account");
    assert_eq!(link(None, &shared.token, team).await.status, 400);
    let bobs = bob.proof(server, &Method::POST, path);
    assert_eq!(
        link(Some(&bobs), &bob.token, team).await.error(),
        "accountProof is by a session of another account"
    );
    assert_eq!(link(Some(&bobs), &shared.token, team).await.status, 401);
    let linked = link(Some(&proof()), &shared.token, team).await;
    assert_eq!((linked.status.as_u16(), &linked.body), (201, &json!({ "did": team })), "{}", linked.text);
    assert_eq!(link(Some(&proof()), &shared.token, team).await.status, 409);

    // Bob becomes a member; only the owner can give him a higher role.
    let account = json!({ "accountDid": team, "userDid": BOB });
    let add = async |device: &Device, role: &str| {
        let mut body = account.clone();
        body["role"] = role.into();
        post(server, device, "delegation.addDelegate", body).await.status.as_u16()
    };
    let get_account = format!("delegation.getAccount?did={team}");
    assert_eq!(get(server, &bob, &get_account).await.error(), "you are not a delegate of this account");
    assert_eq!(
        (
            add(&bob, "admin").await,
            add(&alice, "owner").await,
            add(&alice, "member").await,
            add(&alice, "member").await
        ),
        (403, 400, 201, 409)
    );
    assert_eq!(get(server, &bob, &get_account).await.body["role"], "member");
    server.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
    let write = async |device: &Device, body: Value| {
        device.request(server, Method::POST, "/xrpc/com.example.put", Some(&body)).await
    };
    let as_team = json!({ "text": "ours", "delegateDid": team });
    assert_eq!(write(&bob, as_team.clone()).await.status, 403);
    let remove = async |device: &Device, user: &str| {
        post(server, device, "delegation.removeDelegate", json!({ "accountDid": team, "userDid": user }))
            .await
            .status
            .as_u16()
    };
    assert_eq!(
        (remove(&bob, ALICE).await, remove(&alice, "did:plc:nobody").await, remove(&alice, BOB).await),
        (403, 404, 200)
    );
    assert_eq!(add(&alice, "admin").await, 201);
    let written = write(&bob, as_team.clone()).await;
    assert!(
        written.status == 200 && written.body["uri"].as_str().unwrap().starts_with(&format!("at://{team}/")),
        "{}",
        written.text
    );
    let uri = written.body["uri"].clone();
    assert_eq!(write(&bob, json!({ "text": "mine", "uri": uri })).await.status, 403);
    assert_eq!(write(&bob, json!({ "text": "again", "uri": uri, "delegateDid": team })).await.status, 200);
    let delegates = get(server, &bob, &format!("delegation.listDelegates?accountDid={team}")).await;
    let roles: Vec<_> = delegates.body["delegates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (d["userDid"].clone(), d["role"].clone()))
        .collect();
    assert_eq!(roles, [(json!(ALICE), json!("owner")), (json!(BOB), json!("admin"))]);
    // A script gets `delegate_did`, and saves to the shared repo.
    server.upload(procedure_lexicon("com.example.script"), Some(NOTES)).await;
    server
        .bind_to(
            "xrpc.procedure:com.example.script",
            "function handle() \
        local r = Record(collection, { text = input.text }) \
        if input.space then \
            local _, fault = pcall(r.save, r:set_space(input.space)) \
            return { refused = tostring(fault) } \
        end \
        r:save() \
        return { uri = r._uri, who = caller_did, as = delegate_did, left = input.delegateDid == nil } end",
        )
        .await;
    let scripted = bob.request(server, Method::POST, "/xrpc/com.example.script", Some(&as_team)).await;
    assert_eq!(
        (&scripted.body["who"], &scripted.body["as"], &scripted.body["left"]),
        (&json!(BOB), &json!(team), &json!(true)),
        "{}",
        scripted.text
    );
    assert!(
        scripted.body["uri"].as_str().unwrap().starts_with(&format!("at://{team}/")),
        "{}",
        scripted.text
    );
    let space = format!("at://{BOB}/space/com.example.group/main");
    let in_space = json!({ "text": "ours", "delegateDid": team, "space": space });
    let refused = bob.request(server, Method::POST, "/xrpc/com.example.script", Some(&in_space)).await;
    let why = refused.body["refused"].as_str().unwrap_or_default();
    assert!(why.contains("delegate_did"), "a shared account is no member: {}", refused.text);
    let as_alice = json!({ "text": "hers", "delegateDid": ALICE });
    assert_eq!(
        bob.request(server, Method::POST, "/xrpc/com.example.script", Some(&as_alice)).await.status,
        404
    );
    assert_eq!(get(server, &bob, "delegation.listAccounts").await.body["accounts"][0]["did"], team);

    // Delegations don't apply to another client.
    let other = App::confidential(server, "other").await;
    let elsewhere = other.device(server, &pds, ALICE, json!({})).await;
    let scoped = get(server, &elsewhere, &get_account).await;
    assert_eq!(
        (scoped.status.as_u16(), scoped.error()),
        (403, "delegation is scoped to a different application")
    );
    // Only the owner can unlink the account, which logs it out.
    assert_eq!(post(server, &bob, "delegation.unlinkAccount", json!({ "did": team })).await.status, 403);
    assert_eq!(post(server, &alice, "delegation.unlinkAccount", json!({ "did": team })).await.status, 200);
    assert_eq!(get(server, &alice, &get_account).await.error(), "delegated account not found");
    assert_eq!(write(&bob, as_team).await.status, 404);
    assert_eq!(
        shared.request(server, Method::GET, &format!("/oauth/sessions/{team}"), None).await.status,
        401
    );
}
