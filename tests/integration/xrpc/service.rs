//! `/xrpc/dev.service.*`: third parties manage their API clients and the accounts they write for together.

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

crate::in_both_worlds! {
    async fn a_user_registers_applications_of_their_own(world) {
        let server = &world.server;
        let pds = pds(&world, &[ALICE, BOB]).await;
        let app = App::confidential(server, "parent").await;
        let alice = app.device(server, &pds, ALICE, json!({})).await;
        let bob = app.device(server, &pds, BOB, json!({})).await;
        let none = get(server, &alice, "listApiClients").await;
        assert_eq!(none.body, json!({ "clients": [] }));
        assert!(none.headers.contains_key("ratelimit-remaining"));

        let made = post(server, &alice, "createApiClient", child("one")).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let (client, secret) = (&made.body["client"], made.body["clientSecret"].as_str().unwrap());
        let id = client["id"].as_str().unwrap();
        assert!(client["clientKey"].as_str().unwrap().starts_with("bvc_") && secret.starts_with("bvs_"));
        assert_eq!((&client["clientType"], &client["scopes"], &client["isActive"], &client["allowedOrigins"]),
            (&json!("confidential"), &json!("atproto"), &json!(true), &json!([])));
        assert_eq!(get(server, &alice, &format!("getApiClient?id={id}")).await.body, json!({ "client": client }));
        assert_eq!(get(server, &alice, "listApiClients").await.body, json!({ "clients": [client] }));
        let listed = server.admin(Method::GET, &format!("/admin/api-clients?parent_id={}", app.id), None).await;
        assert_eq!((&listed.body[0]["id"], &listed.body[0]["owner_did"]), (&json!(id), &json!(ALICE)));

        // Whose it is not knows nothing of it.
        for device in [&bob] {
            assert_eq!(get(server, device, "listApiClients").await.body, json!({ "clients": [] }));
            let one = get(server, device, &format!("getApiClient?id={id}")).await;
            assert_eq!((one.status.as_u16(), one.error()), (404, "API client not found"));
            assert_eq!(post(server, device, "deleteApiClient", json!({ "id": id })).await.error(), "API client not found");
        }
        // What it may not be.
        let with = |change: Value| {
            let mut body = child("two");
            body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            body
        };
        for (body, status, error) in [
            (child("one"), 409, "client_id_url already registered"),
            (with(json!({ "clientType": "robot" })), 400, "Invalid client_type"),
            (with(json!({ "redirectUris": null })), 400, "invalid request body"),
            (json!([]), 400, "invalid request body"),
            (with(json!({ "scopes": "atproto transition:generic" })), 400, "scope 'transition:generic' is not allowed for the parent client"),
            (with(json!({ "scopes": "blob:*/*" })), 400, "scopes must include atproto"),
            (with(json!({ "clientUri": "nowhere" })), 400, "client_uri must be"),
            (with(json!({ "allowedOrigins": ["https://a.example/path"] })), 400, "allowed_origins"),
        ] {
            let answer = post(server, &alice, "createApiClient", body.clone()).await;
            assert_eq!(answer.status, status, "{body} {}", answer.text);
            assert!(answer.error().starts_with(error), "{body} {}", answer.text);
        }
        let public = with(json!({ "clientType": "public", "allowedOrigins": ["https://two.example"], "scopes": SCOPES }));
        let public = post(server, &alice, "createApiClient", public).await;
        assert_eq!((public.status.as_u16(), public.body.get("clientSecret")), (201, None), "{}", public.text);

        // A child works, and manages nothing itself; it goes with its parent's activity.
        let own = App { key: client["clientKey"].as_str().unwrap().to_owned(), secret: Some(secret.to_owned()), id: id.to_owned() };
        let device = own.device(server, &pds, ALICE, json!({ "scopes": "atproto" })).await;
        for (method, status) in [("listApiClients", 401), ("getApiClient?id=x", 401)] {
            let answer = get(server, &device, method).await;
            assert_eq!((answer.status.as_u16(), answer.error()), (status, "child clients cannot manage API clients"));
        }
        assert_eq!(post(server, &device, "deleteApiClient", json!({ "id": id })).await.error(), "child clients cannot manage API clients");
        let refused = post(server, &device, "createApiClient", child("three")).await;
        assert_eq!((refused.status.as_u16(), refused.error()), (403, "Child clients cannot create API clients"));

        let deleted = post(server, &alice, "deleteApiClient", json!({ "id": id })).await;
        assert_eq!((deleted.status.as_u16(), deleted.body), (200, json!({})));
        assert_eq!(get(server, &device, "listApiClients").await.error(), "Invalid client");
        let events = server.admin(Method::GET, "/admin/events?event_type=api_client.created", None).await;
        assert_eq!(events.body["events"][0]["detail"]["parent_client_id"], app.id.as_str(), "{}", events.text);
    }

    async fn only_dpop_sessions_manage(world) {
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

    async fn an_account_is_shared_only_by_whoever_holds_it(world) {
        let world = world.with_notes().await;
        let server = &world.server;
        let team = "did:plc:teamteamteamteamteamteam";
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
        assert_eq!(link(Some(&bobs), &bob.token, team).await.error(), "accountProof is by a session of another account");
        assert_eq!(link(Some(&bobs), &shared.token, team).await.status, 401);
        let linked = link(Some(&proof()), &shared.token, team).await;
        assert_eq!((linked.status.as_u16(), &linked.body), (201, &json!({ "did": team })), "{}", linked.text);
        assert_eq!(link(Some(&proof()), &shared.token, team).await.status, 409);

        // Bob gets a part in it, and more only from the owner.
        let account = json!({ "accountDid": team, "userDid": BOB });
        let add = async |device: &Device, role: &str| {
            let mut body = account.clone();
            body["role"] = role.into();
            post(server, device, "delegation.addDelegate", body).await.status.as_u16()
        };
        let get_account = format!("delegation.getAccount?did={team}");
        assert_eq!(get(server, &bob, &get_account).await.error(), "you are not a delegate of this account");
        assert_eq!((add(&bob, "admin").await, add(&alice, "owner").await, add(&alice, "member").await, add(&alice, "member").await), (403, 400, 201, 409));
        assert_eq!(get(server, &bob, &get_account).await.body["role"], "member");
        server.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
        let write = async |device: &Device, body: Value| device.request(server, Method::POST, "/xrpc/com.example.put", Some(&body)).await;
        let as_team = json!({ "text": "ours", "delegateDid": team });
        assert_eq!(write(&bob, as_team.clone()).await.status, 403);
        let remove = async |device: &Device, user: &str| {
            post(server, device, "delegation.removeDelegate", json!({ "accountDid": team, "userDid": user })).await.status.as_u16()
        };
        assert_eq!((remove(&bob, ALICE).await, remove(&alice, "did:plc:nobody").await, remove(&alice, BOB).await), (403, 404, 200));
        assert_eq!(add(&alice, "admin").await, 201);
        let written = write(&bob, as_team.clone()).await;
        assert!(written.status == 200 && written.body["uri"].as_str().unwrap().starts_with(&format!("at://{team}/")), "{}", written.text);
        let uri = written.body["uri"].clone();
        assert_eq!(write(&bob, json!({ "text": "mine", "uri": uri })).await.status, 403);
        assert_eq!(write(&bob, json!({ "text": "again", "uri": uri, "delegateDid": team })).await.status, 200);
        let delegates = get(server, &bob, &format!("delegation.listDelegates?accountDid={team}")).await;
        let roles: Vec<_> = delegates.body["delegates"].as_array().unwrap().iter().map(|d| (d["userDid"].clone(), d["role"].clone())).collect();
        assert_eq!(roles, [(json!(ALICE), json!("owner")), (json!(BOB), json!("admin"))]);
        // A script is told, and saves to the shared repo.
        server.upload(procedure_lexicon("com.example.script"), Some(NOTES)).await;
        server.bind_to("xrpc.procedure:com.example.script", "function handle() \
            local r = Record(collection, { text = input.text }):save() \
            return { uri = r._uri, who = caller_did, as = delegate_did, left = input.delegateDid == nil } end").await;
        let scripted = bob.request(server, Method::POST, "/xrpc/com.example.script", Some(&as_team)).await;
        assert_eq!((&scripted.body["who"], &scripted.body["as"], &scripted.body["left"]), (&json!(BOB), &json!(team), &json!(true)), "{}", scripted.text);
        assert!(scripted.body["uri"].as_str().unwrap().starts_with(&format!("at://{team}/")), "{}", scripted.text);
        let as_alice = json!({ "text": "hers", "delegateDid": ALICE });
        assert_eq!(bob.request(server, Method::POST, "/xrpc/com.example.script", Some(&as_alice)).await.status, 404);
        assert_eq!(get(server, &bob, "delegation.listAccounts").await.body["accounts"][0]["did"], team);

        // In another application there is nothing of it.
        let other = App::confidential(server, "other").await;
        let elsewhere = other.device(server, &pds, ALICE, json!({})).await;
        let scoped = get(server, &elsewhere, &get_account).await;
        assert_eq!((scoped.status.as_u16(), scoped.error()), (403, "delegation is scoped to a different application"));
        // The owner alone takes it back, and the account is logged out with it.
        assert_eq!(post(server, &bob, "delegation.unlinkAccount", json!({ "did": team })).await.status, 403);
        assert_eq!(post(server, &alice, "delegation.unlinkAccount", json!({ "did": team })).await.status, 200);
        assert_eq!(get(server, &alice, &get_account).await.error(), "delegated account not found");
        assert_eq!(write(&bob, as_team).await.status, 404);
        assert_eq!(shared.request(server, Method::GET, &format!("/oauth/sessions/{team}"), None).await.status, 401);
    }
}
