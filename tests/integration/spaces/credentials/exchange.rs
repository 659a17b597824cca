//! `getDelegationToken`, `getSpaceCredential`.

use belvedere_base::clock::Clock;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::Algorithm;
use belvedere_protocol::spaces::r10::token::attest;
use http::Method;
use serde_json::{Value, json};

use super::{Holder, changed, delegation, send};
use crate::fixtures::{ALICE, BOB, World};
use crate::oauth::device::{App, pds};
use crate::spaces::{CAROL, Group, KIND, error};

crate::in_both_worlds!(
    an_app_of_this_instance_gets_a_credential,
    each_check_of_a_delegation_has_its_error,
    a_space_decides_about_users_and_apps
);

async fn an_app_of_this_instance_gets_a_credential(world: World) {
    let group = Group::of(world).await;
    let pds = pds(&group.world, &[BOB]).await;
    let space = group.space("main", json!({})).await;
    let server = &group.world.server;
    let query = format!("space.getDelegationToken?space={space}");
    // A space that is not here, and one that Bob may not know of, look alike.
    let absent = group.get(&group.bob, &format!("{query}x")).await;
    let hidden = group.get(&group.bob, &query).await;
    assert_eq!((error(&absent), &absent.body), ((404, "SpaceNotFound"), &hidden.body));
    let own_records = json!({ "space": space, "did": BOB, "read": true, "write": true, "readSelf": true });
    assert_eq!(group.post(&group.alice, "simplespace.putMember", own_records).await.status, 200);
    assert_eq!(error(&group.get(&group.bob, &query).await), (403, "NotAuthorized"), "reads only his own");
    group.join(&space, BOB, true, false).await;
    let with_token = group.get(&group.bob, &query).await;
    assert_eq!(with_token.status, 200, "a service token is enough: {}", with_token.text);

    let read = format!("atproto space:{KIND}?authority=*&action=read");
    let narrow = format!("atproto space:{KIND}?authority=*&action=read_self");
    for (scopes, is_allowed) in [(read, true), (narrow, false)] {
        let name = if is_allowed { "app" } else { "narrow" };
        let client = json!({ "name": name, "client_id_url": format!("https://{name}.example/client.json"),
            "client_uri": format!("https://{name}.example"), "redirect_uris": [], "scopes": scopes });
        let app = App::with(server, client).await;
        let device = app.device(server, &pds, BOB, json!({ "scopes": scopes })).await;
        let path = format!("/xrpc/com.atproto.{query}");
        let answer = device.request(server, Method::GET, &path, None).await;
        if !is_allowed {
            assert_eq!(error(&answer), (403, "InsufficientScope"));
            continue;
        }
        assert_eq!(answer.status, 200, "{}", answer.text);
        let token = answer.body["token"].as_str().unwrap();
        assert_eq!(answer.body["delegationToken"], token);
        assert!(answer.body["expiresAt"].is_string());
        // The older name.
        let alias = format!("/xrpc/dev.service.space.getMemberGrant?space={space}");
        assert_eq!(device.request(server, Method::GET, &alias, None).await.status, 200);
        // It is no service token, and nothing else than a delegation.
        let bearer = format!("Bearer {token}");
        let list = format!("/xrpc/com.atproto.space.listRecords?space={space}");
        let called = server.request(Method::GET, &list, &[("authorization", &bearer)], None).await;
        assert_eq!(called.status, 401);
        let holder = Holder::new();
        let exchanged = holder.exchange(&group, token, json!({ "space": space })).await;
        assert_eq!(exchanged.status, 200, "{}", exchanged.text);
        let credential = exchanged.body["credential"].as_str().unwrap();
        let read =
            holder.get(&group, credential, ALICE, &format!("simplespace.getSpace?space={space}")).await;
        assert_eq!(read.status, 200, "{}", read.text);
    }
}

async fn each_check_of_a_delegation_has_its_error(world: World) {
    let group = Group::of(world).await;
    let (space, other) = (group.space("main", json!({})).await, group.space("other", json!({})).await);
    group.join(&space, BOB, true, false).await;
    let (holder, bob) = (Holder::new(), &group.bob);
    let now = Clock::system().now().as_seconds();
    let none = || json!({});
    for (header, claims, status, name) in [
        (json!({ "alg": "HS256" }), none(), 401, "BadJwt"),
        (json!({ "typ": "JWT" }), none(), 401, "BadJwtType"),
        (json!({ "typ": "atproto-space-credential+jwt" }), none(), 401, "BadJwtType"),
        (json!({ "kid": "#atproto_space" }), none(), 401, "BadJwt"),
        (json!({ "kid": null }), none(), 401, "BadJwt"),
        // Not issued by this instance, though it says so.
        (json!({ "kid": "host" }), none(), 401, "BadJwtSignature"),
        (none(), json!({ "iss": CAROL }), 401, "BadJwtSignature"),
        (none(), json!({ "iss": "did:plc:nobodynobodynobodynobody" }), 401, "BadJwt"),
        (none(), json!({ "iss": "bob.test" }), 401, "BadJwtIss"),
        (none(), json!({ "sub": other }), 400, "InvalidDelegationToken"),
        (none(), json!({ "aud": ALICE }), 401, "BadJwtAudience"),
        (none(), json!({ "aud": format!("{CAROL}#atproto_space_host") }), 401, "BadJwtAudience"),
        (none(), json!({ "jti": null }), 401, "BadJwt"),
        (none(), json!({ "exp": now + 400 }), 401, "BadJwt"),
        (none(), json!({ "iat": now - 90, "exp": now - 30 }), 401, "JwtExpired"),
        (none(), json!({ "iat": now + 30 }), 401, "BadJwt"),
        (none(), none(), 200, ""),
    ] {
        let token = changed(&delegation(bob, &space), bob.key(), &header, &claims);
        let answer = holder.exchange(&group, &token, json!({ "space": space })).await;
        assert_eq!(error(&answer), (status, name), "{header} {claims} {}", answer.text);
    }
    let token = delegation(bob, &space);
    assert_eq!(holder.exchange(&group, &token, json!({ "space": space })).await.status, 200);
    let again = Holder::new().exchange(&group, &token, json!({ "space": space })).await;
    assert_eq!(error(&again), (401, "JwtReplayed"));

    // The signature of the request.
    let exchange = async |headers| {
        let body = Some(json!({ "space": space }));
        send(&group, Method::POST, "space.getSpaceCredential", headers, body).await
    };
    let fresh = || format!("Bearer {}", delegation(bob, &space));
    let signed = |authorization: &str| holder.headers(authorization, None);
    let mut repeated = signed(&fresh());
    repeated.push(("authorization", fresh()));
    let mut swapped = signed(&fresh());
    let mut of_another_key = Holder::new().headers(&fresh(), None);
    swapped[2] = of_another_key.swap_remove(2);
    let mut other_token = signed(&fresh());
    other_token[0].1 = fresh();
    let audience_too = holder.headers(&fresh(), Some(ALICE));
    let unsigned = vec![("authorization", fresh())];
    for headers in [repeated, swapped, other_token, audience_too, unsigned, Vec::new()] {
        let answer = exchange(headers.clone()).await;
        assert_eq!(error(&answer), (401, "BadSpaceSignature"), "{headers:?} {}", answer.text);
    }
    // Another label beside ours is ignored.
    let mut labelled = signed(&fresh());
    labelled.extend([
        ("signature-input", "other=(\"@method\")".to_owned()),
        ("signature", "other=:AAAA:".to_owned()),
    ]);
    assert_eq!(exchange(labelled).await.status, 200);
}

async fn a_space_decides_about_users_and_apps(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    let holder = Holder::new();
    let exchange = async |space: &str, more: Value| {
        let mut body = json!({ "space": space });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        holder.exchange(&group, &delegation(&group.bob, space), body).await
    };
    let named = |answer: &crate::support::instance::Answer| {
        let (status, name) = error(answer);
        (status, name.to_owned())
    };
    assert_eq!(named(&exchange(&space, json!({})).await), (400, "UserNotAuthorized".to_owned()));
    group.join(&space, BOB, false, true).await;
    assert_eq!(named(&exchange(&space, json!({})).await), (400, "UserNotAuthorized".to_owned()), "a writer");
    group.join(&space, BOB, true, true).await;
    // Removed between the token and the exchange.
    let token = delegation(&group.bob, &space);
    let remove = json!({ "space": space, "did": BOB });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    let late = holder.exchange(&group, &token, json!({ "space": space })).await;
    assert_eq!(error(&late), (400, "UserNotAuthorized"));
    group.join(&space, BOB, true, false).await;
    let absent = format!("at://{ALICE}/space/{KIND}/absent");
    assert_eq!(named(&exchange(&absent, json!({})).await), (400, "SpaceNotFound".to_owned()));

    let list = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/client.json"] });
    let update = json!({ "space": space, "appAccess": list });
    assert_eq!(group.post(&group.alice, "simplespace.updateSpace", update).await.status, 200);
    assert_eq!(named(&exchange(&space, json!({})).await), (400, "AppNotAuthorized".to_owned()));
    let authority = Did::try_from(ALICE).unwrap();
    let attest = |client: &str, authority: &Did| {
        attest(&holder.key, "k1", client, authority, "1", Clock::system().now()).unwrap()
    };
    for attestation in [
        "x".to_owned(),
        attest("https://app.example/client.json", &Did::try_from(CAROL).unwrap()),
        // No host answers there, or it is one that must not be called.
        attest("https://app.example/client.json", &authority),
        attest(&format!("https://127.0.0.1:{}/client.json", group.world.server.address.port()), &authority),
        group.bob.token(ALICE, json!({})),
    ] {
        let answer = exchange(&space, json!({ "clientAttestation": attestation })).await;
        assert_eq!(named(&answer), (400, "InvalidClientAttestation".to_owned()), "{}", answer.text);
    }

    let delete = json!({ "space": space });
    assert_eq!(group.post(&group.alice, "simplespace.deleteSpace", delete).await.status, 200);
    assert_eq!(named(&exchange(&space, json!({})).await), (400, "SpaceDeleted".to_owned()));
    // A key of another curve.
    let carol = group.world.plc.person("did:plc:danieldanieldanieldanie", Algorithm::Es256);
    let public = json!({ "readPolicy": { "$type": "com.atproto.simplespace.defs#publicPolicy" } });
    let open = group.space("open", public).await;
    holder.credential(&group, &carol, &open).await;
}
