//! Calls with a credential.

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::token::{Binding, Credential, KeyId};
use belvedere_standins::jetstream::Frame;
use http::Method;
use serde_json::{Value, json};

use super::{Holder, changed, send};
use crate::fixtures::{ALICE, BOB, World};
use crate::spaces::{CAROL, Group, KIND, error};

crate::in_both_worlds!(
    a_credential_reads_the_space_until_it_is_revoked,
    each_check_of_a_credential_has_its_error,
    other_settings_end_credentials,
    the_authority_of_another_host_issues_credentials
);

async fn a_credential_reads_the_space_until_it_is_revoked(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, false).await;
    group.join(&space, CAROL, true, false).await;
    group.note(&group.alice, &space, "a").await;
    let (holder, other) = (Holder::new(), Holder::new());
    let credential = holder.credential(&group, &group.bob, &space).await;
    let (repo, note) = (format!("repo={ALICE}"), "collection=com.example.note");
    let reads = [
        format!("space.getRecord?space={space}&{repo}&{note}&rkey=a"),
        format!("space.listRecords?space={space}&{repo}"),
        format!("space.listRecords?space={space}"),
        format!("space.getLatestCommit?space={space}&{repo}"),
        format!("space.listRepoOps?space={space}&{repo}"),
        format!("space.listRepos?space={space}"),
        format!("simplespace.getSpace?space={space}"),
    ];
    for query in &reads {
        let answer = holder.get(&group, &credential, ALICE, query).await;
        assert_eq!(answer.status, 200, "{query} {}", answer.text);
        assert!(answer.headers.contains_key("ratelimit-remaining"));
    }
    // The repo answers, not the authority.
    let bobs = format!("space.listRecords?space={space}&repo={BOB}");
    assert_eq!(error(&holder.get(&group, &credential, ALICE, &bobs).await), (401, "BadSpaceAudience"));
    assert_eq!(holder.get(&group, &credential, BOB, &bobs).await.status, 200);
    // The other scheme, with the same proof.
    let headers = holder.headers(&format!("Bearer {credential}"), Some(ALICE));
    assert_eq!(send(&group, Method::GET, &reads[0], headers, None).await.status, 200);

    // It never writes, and is nothing elsewhere.
    let record = json!({ "space": space, "collection": "com.example.note", "record": { "text": "x" } });
    let headers = holder.headers(&format!("Atproto-Space {credential}"), Some(ALICE));
    let write = send(&group, Method::POST, "space.createRecord", headers.clone(), Some(record)).await;
    assert_eq!(error(&write), (403, "NotAuthorized"));
    let delegate = format!("space.getDelegationToken?space={space}");
    assert_eq!(error(&holder.get(&group, &credential, ALICE, &delegate).await), (403, "NotAuthorized"));
    let elsewhere = send(&group, Method::GET, "repo.getRecord", headers, None).await;
    assert_eq!(elsewhere.status, 401);
    let second = group.space("second", json!({})).await;
    let query = format!("space.listRecords?space={second}");
    assert_eq!(error(&holder.get(&group, &credential, ALICE, &query).await), (400, "InvalidCredential"));

    let carols = other.credential(&group, &group.carol, &space).await;
    group.join(&space, BOB, false, true).await;
    let remove = json!({ "space": space, "did": CAROL });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    for query in &reads {
        for (holder, credential) in [(&holder, &credential), (&other, &carols)] {
            let answer = holder.get(&group, credential, ALICE, query).await;
            assert_eq!(error(&answer), (401, "CredentialRevoked"), "{query}");
        }
    }
}

async fn each_check_of_a_credential_has_its_error(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, false).await;
    let (holder, thief) = (Holder::new(), Holder::new());
    let credential = holder.credential(&group, &group.bob, &space).await;
    let query = format!("space.listRecords?space={space}");
    let call =
        async |headers: Vec<(&'static str, String)>| send(&group, Method::GET, &query, headers, None).await;
    let scheme = format!("Atproto-Space {credential}");
    let good = holder.headers(&scheme, Some(ALICE));
    assert_eq!(call(good.clone()).await.status, 200);
    assert_eq!(call(good.clone()).await.status, 200, "the same signature again");

    let with = |name: &'static str, value: &str| {
        let mut headers = good.clone();
        headers.push((name, value.to_owned()));
        headers
    };
    let without = |name: &str| good.iter().filter(|(known, _)| *known != name).cloned().collect::<Vec<_>>();
    let replaced = |name: &str, value: &str| {
        let value_of = |(known, old): &(&'static str, String)| {
            (*known, if *known == name { value.to_owned() } else { old.clone() })
        };
        good.iter().map(value_of).collect::<Vec<_>>()
    };
    let bearer = format!("Bearer {credential}");
    for headers in [
        with("authorization", &scheme),
        with("authorization", "Bearer x"),
        with("atproto-space-audience", ALICE),
        without("atproto-space-audience"),
        without("signature"),
        without("signature-input"),
        replaced("atproto-space-audience", BOB),
        // A stolen credential: the signature of another key, or for another header.
        thief.headers(&scheme, Some(ALICE)),
        replaced("authorization", &bearer),
        replaced("signature", &thief.headers(&scheme, Some(ALICE))[2].1),
        holder.headers(&scheme, None),
        vec![("authorization", bearer.clone())],
    ] {
        let answer = call(headers.clone()).await;
        assert_eq!(error(&answer), (401, "BadSpaceSignature"), "{headers:?} {}", answer.text);
    }
    let not_a_did = call(holder.headers(&scheme, Some("alice.test"))).await;
    assert_eq!(error(&not_a_did), (401, "BadSpaceAudience"));

    // Forged ones. The user who is the authority by name has no right to issue them for a space that is hosted here.
    let forged = |key: &PrivateKey, header: Value, claims: Value| changed(&credential, key, &header, &claims);
    let none = || json!({});
    for (token, name) in [
        (forged(&thief.key, none(), none()), "BadJwtSignature"),
        (forged(&thief.key, none(), json!({ "iss": CAROL })), "BadJwtIss"),
        (
            forged(group.carol.key(), json!({ "alg": "ES256K", "kid": "#atproto" }), json!({ "iss": CAROL })),
            "BadJwtIss",
        ),
        (forged(group.alice.key(), json!({ "alg": "ES256K", "kid": "#atproto" }), none()), "BadJwt"),
        (forged(group.alice.key(), json!({ "alg": "ES256K" }), none()), "BadJwtSignature"),
    ] {
        let answer = call(holder.headers(&format!("Atproto-Space {token}"), Some(ALICE))).await;
        assert_eq!(error(&answer), (401, name), "{}", answer.text);
    }
    let malformed = call(holder.headers("Atproto-Space x", Some(ALICE))).await;
    assert_eq!(error(&malformed), (401, "BadJwt"));
}

async fn the_authority_of_another_host_issues_credentials(world: World) {
    let mut group = Group::of(world.with_notes().await).await;
    // Bob's repo in a space of Carol's, which another server hosts.
    let space = format!("at://{CAROL}/space/{KIND}/main");
    assert_eq!(group.note(&group.bob, &space, "b").await.status, 200);
    let (holder, uri) = (Holder::new(), SpaceUri::parse(&space).unwrap());
    let (key, now) = (group.carol.key(), Clock::system().now());
    let issue =
        |binding: &Binding, id| Credential::issue(key, id, &uri, binding, &Random::system().hex(8), now).0;
    let binding = Binding::Key(holder.key.public());
    let good = issue(&binding, KeyId::Atproto);
    let query = format!("space.listRecords?space={space}&repo={BOB}");
    let call = async |token: &str| holder.get(&group, token, BOB, &query).await;
    let answer = call(&good).await;
    assert_eq!(answer.body["records"].as_array().map(Vec::len), Some(1), "{}", answer.text);

    let seconds = now.as_seconds();
    let (none, other) = (|| json!({}), Holder::new());
    let jkt = json!({ "jkt": "x".repeat(43) });
    for (header, claims, name) in [
        (json!({ "typ": "JWT" }), none(), "BadJwtType"),
        (json!({ "kid": "#atproto_label" }), none(), "BadJwt"),
        // Not in the document. No other key is tried.
        (json!({ "kid": "#atproto_space" }), none(), "BadJwt"),
        (json!({ "alg": "ES256" }), none(), "BadJwtSignature"),
        (none(), json!({ "iss": ALICE }), "BadJwtIss"),
        (none(), json!({ "exp": seconds + 4_000 }), "BadJwt"),
        (none(), json!({ "iat": seconds - 90, "exp": seconds - 30 }), "JwtExpired"),
        (none(), json!({ "iat": seconds + 30 }), "BadJwt"),
        (none(), json!({ "jti": null }), "BadJwt"),
        (none(), json!({ "cnf": null }), "BadJwtCnf"),
        (none(), json!({ "cnf": jkt }), "BadJwtCnf"),
        (none(), json!({ "cnf": { "kid": other.key.public().to_did_key() } }), "BadSpaceSignature"),
    ] {
        let answer = call(&changed(&good, key, &header, &claims)).await;
        assert_eq!(error(&answer), (401, name), "{header} {claims} {}", answer.text);
    }
    // A space that is not here, whose authority is the same.
    let elsewhere = format!("at://{CAROL}/space/{KIND}/other");
    let absent = changed(&good, key, &none(), &json!({ "sub": elsewhere }));
    assert_eq!(error(&call(&absent).await), (400, "InvalidCredential"));
    let query = format!("space.listRecords?space={elsewhere}&repo={BOB}");
    assert_eq!(error(&holder.get(&group, &absent, BOB, &query).await), (404, "SpaceNotFound"));
    // The repos of all authors are at the authority's host.
    let all = format!("space.listRepos?space={space}");
    assert_eq!(error(&holder.get(&group, &good, CAROL, &all).await), (404, "SpaceNotFound"));
    // A key of its own for spaces.
    let space_key = PrivateKey::generate(Algorithm::Es256, &Random::system());
    let daniel = group.world.plc.person("did:plc:danieldanieldanieldanie", Algorithm::Es256k);
    group.world.plc.space_key(&daniel.did, &space_key.public());
    let space = format!("at://{}/space/{KIND}/main", daniel.did);
    assert_eq!(group.note(&group.bob, &space, "b").await.status, 200);
    let uri = SpaceUri::parse(&space).unwrap();
    let token = Credential::issue(&space_key, KeyId::AtprotoSpace, &uri, &binding, "1", now).0;
    let query = format!("space.listRecords?space={space}&repo={BOB}");
    let answer = holder.get(&group, &token, BOB, &query).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    // The authority has a new one.
    let new_key = PrivateKey::generate(Algorithm::Es256, &Random::system());
    group.world.plc.space_key(&daniel.did, &new_key.public());
    group.world.push(|at, _| Frame::identity(at, &daniel.did, "daniel.example"));
    let is_refused = async |_: &_| {
        let old = holder.get(&group, &token, BOB, &query).await;
        old.status != 200 && error(&old) == (401, "BadJwtSignature")
    };
    group.world.server.eventually("the old key is refused", is_refused).await;
    let renewed = Credential::issue(&new_key, KeyId::AtprotoSpace, &uri, &binding, "2", now).0;
    let answer = holder.get(&group, &renewed, BOB, &query).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

async fn other_settings_end_credentials(world: World) {
    let group = Group::of(world).await;
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    let holder = Holder::new();
    let query = format!("space.listRecords?space={space}");
    let public = json!({ "$type": "com.atproto.simplespace.defs#publicPolicy" });
    let apps = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/c.json"] });
    for (change, ends) in [
        (json!({ "displayName": "x", "writePolicy": public }), false),
        (json!({ "appAccess": { "$type": "com.atproto.simplespace.defs#open" } }), false),
        (json!({ "readPolicy": public }), true),
        (json!({ "readPolicy": public }), false),
        (json!({ "mintPolicy": "member-list" }), true),
        (json!({ "appAccess": apps }), true),
    ] {
        let credential = holder.credential(&group, &group.bob, &space).await;
        let mut body = json!({ "space": space });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(group.post(&group.alice, "simplespace.updateSpace", body).await.status, 200);
        let answer = holder.get(&group, &credential, ALICE, &query).await;
        let expected = if ends { (401, "CredentialRevoked") } else { (200, "") };
        assert_eq!(error(&answer), expected, "{change} {}", answer.text);
    }
    let open = json!({ "app_access": { "$type": "com.atproto.simplespace.defs#open" } });
    assert_eq!(group.admin(Method::PATCH, &space, "", Some(&open)).await.status, 200);
    let credential = holder.credential(&group, &group.bob, &space).await;
    let change = json!({ "read_policy": public });
    assert_eq!(group.admin(Method::PATCH, &space, "", Some(&change)).await.status, 200);
    let answer = holder.get(&group, &credential, ALICE, &query).await;
    assert_eq!(error(&answer), (401, "CredentialRevoked"));
}
