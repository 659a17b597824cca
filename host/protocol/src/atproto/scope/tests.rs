//! Test vectors: the syntax of scopes, what a set allows, and which sets it covers.

use proptest::prelude::*;
use serde_json::json;

use super::AccountAction::{Manage, Read};
use super::AccountAttribute::{Email, Status};
use super::RepoAction::{Create, Delete, Update};
use super::*;

fn scopes(text: &str) -> Scopes {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The shortest form, as `@atproto/oauth-scopes` writes it too.
#[test]
fn scopes_have_a_canonical_form() {
    for (text, canonical) in [
        ("atproto", "atproto"),
        ("transition:generic", "transition:generic"),
        ("transition:chat.bsky", "transition:chat.bsky"),
        ("transition:email", "transition:email"),
        ("repo:com.example.note", "repo:com.example.note"),
        ("repo?collection=com.example.note", "repo:com.example.note"),
        ("repo:*", "repo:*"),
        ("repo:com.example.note?action=create", "repo:com.example.note?action=create"),
        (
            "repo:com.example.note?action=delete&action=create",
            "repo:com.example.note?action=create&action=delete",
        ),
        ("repo:com.example.note?action=create&action=update&action=delete", "repo:com.example.note"),
        (
            "repo?collection=com.example.b&collection=com.example.a",
            "repo?collection=com.example.a&collection=com.example.b",
        ),
        ("repo?collection=com.example.b&collection=*", "repo:*"),
        ("repo?collection=com.example.a&collection=com.example.a", "repo:com.example.a"),
        (
            "rpc:com.example.get?aud=did:web:example.com%23svc",
            "rpc:com.example.get?aud=did:web:example.com%23svc",
        ),
        ("rpc:com.example.get?aud=*", "rpc:com.example.get?aud=*"),
        ("rpc:*?aud=did:web:example.com%23svc", "rpc:*?aud=did:web:example.com%23svc"),
        ("rpc?lxm=com.example.b&lxm=com.example.a&aud=*", "rpc?lxm=com.example.a&lxm=com.example.b&aud=*"),
        ("blob:*/*", "blob:*/*"),
        ("blob:image/*", "blob:image/*"),
        ("blob:IMAGE/PNG", "blob:image/png"),
        ("blob:image/svg+xml", "blob:image/svg+xml"),
        ("blob?accept=video/mp4&accept=image/*", "blob?accept=image/*&accept=video/mp4"),
        ("blob?accept=video/mp4&accept=*/*", "blob:*/*"),
        ("account:email", "account:email"),
        ("account:email?action=read", "account:email"),
        ("account:repo?action=manage", "account:repo?action=manage"),
        ("account:status?action=manage&action=read", "account:status?action=read&action=manage"),
        ("identity:*", "identity:*"),
        ("identity:handle", "identity:handle"),
        ("include:com.example.authBasic", "include:com.example.authBasic"),
        (
            "include:com.example.authBasic?aud=did:web:example.com%23svc",
            "include:com.example.authBasic?aud=did:web:example.com%23svc",
        ),
        ("repo:com%2Eexample.note", "repo:com.example.note"),
        ("someday:soon?x=1", "someday:soon?x=1"),
    ] {
        let scope: Scope = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(scope.to_string(), canonical, "{text}");
        assert_eq!(canonical.parse(), Ok(scope), "{text}");
    }
    assert_eq!(scopes(" atproto  repo:* atproto ").to_string(), "atproto repo:*");
    assert_eq!(scopes("").to_string(), "");
}

#[test]
fn invalid_scopes_are_rejected() {
    for text in [
        ":x",
        "repo",
        "repo:",
        "repo:note",
        "repo:com.example.*",
        "repo:com.example.note?action=",
        "repo:com.example.note?action=read",
        "repo:com.example.note?actions=create",
        "repo:com.example.note?collection=com.example.other",
        "rpc:com.example.get",
        "rpc:*?aud=*",
        "rpc?lxm=com.example.get&lxm=*&aud=*",
        "rpc:com.example.get?aud=did:web:example.com",
        "rpc:com.example.get?aud=https://example.com",
        "rpc:com.example.get?aud=*&aud=*",
        "blob",
        "blob:",
        "blob:image",
        "blob:*/png",
        "blob:image/*/png",
        "blob:image/p*",
        "account:",
        "account:password",
        "account:email?action=write",
        "account?attr=email&attr=repo",
        "identity:did",
        "identity:handle?action=manage",
        "include:basic",
        "include:com.example.authBasic?aud=*",
        "include:com.example.authBasic?action=create",
        "repo:%ff",
    ] {
        assert!(text.parse::<Scope>().is_err(), "{text}");
        let error = format!("atproto {text}").parse::<Scopes>().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    for text in ["atproto transition:email", "atproto\ttransition:email", " atproto\r\n  transition:email\n"]
    {
        assert_eq!(text.parse::<Scopes>().unwrap().to_string(), "atproto transition:email", "{text:?}");
    }
    for text in ["\u{a0}", "\0", "\u{e4}", "\"x\"", "a\\b", "\u{7f}"] {
        assert_eq!(text.parse::<Scopes>(), Err(ScopeError::Character), "{text:?}");
    }
    assert_eq!("x".repeat(MAX_BYTES + 1).parse::<Scopes>(), Err(ScopeError::TooLong));
}

const APP: &str = "did:web:example.com#svc";

#[test]
fn a_set_allows_exactly_its_scopes() {
    let repo = |collection, action| Need::Repo { collection: Some(collection), action };
    let rpc = |method, audience| Need::Rpc { method: Some(method), audience: Some(audience) };
    let account = |attribute, action| Need::Account { attribute, action };
    for (text, need, allowed) in [
        ("atproto", repo("com.example.note", Create), false),
        ("repo:com.example.note", repo("com.example.note", Delete), true),
        ("repo:com.example.note", repo("com.example.notes", Create), false),
        ("repo:com.example.note?action=create", repo("com.example.note", Create), true),
        ("repo:com.example.note?action=create", repo("com.example.note", Update), false),
        ("repo:*?action=delete", repo("com.example.note", Delete), true),
        ("repo:*", Need::Repo { collection: None, action: Create }, true),
        ("repo:com.example.note", Need::Repo { collection: None, action: Create }, false),
        ("repo:com.example.a?action=create repo:com.example.b", repo("com.example.a", Delete), false),
        ("transition:generic", repo("com.example.note", Create), true),
        ("transition:generic", Need::Blob { kind: "image/png" }, true),
        ("transition:generic", rpc("com.example.get", APP), true),
        ("transition:generic", rpc("chat.bsky.convo.getLog", APP), false),
        ("transition:chat.bsky", rpc("chat.bsky.convo.getLog", APP), true),
        ("transition:chat.bsky", rpc("com.example.get", APP), false),
        ("transition:generic", account(Email, Read), false),
        ("transition:email", account(Email, Read), true),
        ("transition:email", account(Email, Manage), false),
        ("transition:email", account(Status, Read), false),
        ("rpc:com.example.get?aud=*", rpc("com.example.get", APP), true),
        ("rpc:com.example.get?aud=did:web:example.com%23svc", rpc("com.example.get", APP), true),
        ("rpc:com.example.get?aud=did:web:example.com%23other", rpc("com.example.get", APP), false),
        ("rpc:*?aud=did:web:example.com%23svc", rpc("com.example.other", APP), true),
        ("rpc:*?aud=did:web:example.com%23svc", Need::Rpc { method: None, audience: Some(APP) }, true),
        ("rpc:com.example.get?aud=*", Need::Rpc { method: None, audience: Some(APP) }, false),
        (
            "rpc:com.example.get?aud=did:web:example.com%23svc",
            Need::Rpc { method: Some("com.example.get"), audience: None },
            false,
        ),
        ("blob:image/*", Need::Blob { kind: "image/png" }, true),
        ("blob:image/*", Need::Blob { kind: "imagex/png" }, false),
        ("blob:image/png", Need::Blob { kind: "image/*" }, false),
        ("blob:image/*", Need::Blob { kind: "*/*" }, false),
        ("blob:*/*", Need::Blob { kind: "application/json" }, true),
        ("account:email", account(Email, Read), true),
        ("account:email", account(Email, Manage), false),
        ("account:email?action=manage", account(Email, Read), true),
        ("identity:*", Need::Identity { attribute: IdentityAttribute::Handle }, true),
        ("identity:handle", Need::Identity { attribute: IdentityAttribute::Any }, false),
        ("someday:com.example.note", repo("com.example.note", Create), false),
    ] {
        assert_eq!(scopes(text).allows(&need), allowed, "{text}: {need:?}");
    }
}

#[test]
fn a_set_covers_another_or_not() {
    for (all, part, within) in [
        ("atproto repo:*", "atproto", true),
        ("atproto", "atproto transition:generic", false),
        ("atproto transition:generic", "atproto repo:* blob:*/* repo:com.example.a?action=create", true),
        ("transition:generic", "rpc:*?aud=did:web:example.com%23svc", false),
        ("repo:*", "transition:generic", false),
        (
            "repo:com.example.a repo:com.example.b?action=create",
            "repo?collection=com.example.a&collection=com.example.b&action=create",
            true,
        ),
        (
            "repo:com.example.a repo:com.example.b?action=create",
            "repo?collection=com.example.a&collection=com.example.b",
            false,
        ),
        (
            "repo:com.example.a?action=create repo:com.example.a?action=update",
            "repo:com.example.a?action=update&action=create",
            true,
        ),
        ("repo:com.example.a", "repo:*", false),
        ("rpc:*?aud=did:web:example.com%23svc", "rpc:com.example.get?aud=did:web:example.com%23svc", true),
        ("rpc:com.example.get?aud=*", "rpc:com.example.get?aud=did:web:example.com%23svc", true),
        ("rpc:com.example.get?aud=did:web:example.com%23svc", "rpc:com.example.get?aud=*", false),
        ("blob:image/*", "blob?accept=image/png&accept=image/jpeg", true),
        ("blob:image/*", "blob?accept=image/png&accept=video/mp4", false),
        ("identity:*", "identity:handle", true),
        ("identity:handle", "identity:*", false),
        ("account:repo?action=manage", "account:repo", true),
        ("include:com.example.authBasic", "include:com.example.authBasic", true),
        ("include:com.example.authBasic", "repo:com.example.note", false),
        ("someday:soon", "someday:soon", true),
        ("someday:soon", "someday:later", false),
        ("", "", true),
        ("", "atproto", false),
    ] {
        assert_eq!(scopes(all).covers(&scopes(part)), within, "{part:?} within {all:?}");
    }
}

#[test]
fn a_permission_set_grants_only_its_own_namespace() {
    let document = json!({ "lexicon": 1, "id": "com.example.authBasic", "defs": { "main": {
        "type": "permission-set", "title": "Basic", "permissions": [
            { "type": "permission", "resource": "repo", "collection": ["com.example.note", "com.example.deep.down"] },
            { "type": "permission", "resource": "repo", "collection": ["com.example.like"], "action": ["create"] },
            { "type": "permission", "resource": "repo", "collection": ["com.example.note", "app.bsky.feed.post"] },
            { "type": "permission", "resource": "repo", "collection": ["com.examples.note"] },
            { "type": "permission", "resource": "repo", "collection": ["*"] },
            { "type": "permission", "resource": "repo" },
            { "type": "permission", "resource": "rpc", "lxm": ["com.example.get"], "inheritAud": true },
            { "type": "permission", "resource": "rpc", "lxm": ["com.example.any"], "aud": "*" },
            { "type": "permission", "resource": "rpc", "lxm": ["com.example.fixed"], "aud": "did:web:evil.example#x" },
            { "type": "permission", "resource": "rpc", "lxm": ["*"], "inheritAud": true },
            { "type": "permission", "resource": "blob", "accept": ["*/*"] },
            { "type": "permission", "resource": "space", "spaceType": "com.example.group", "collection": ["a.b.c"],
              "action": ["read"], "manage": ["update"] },
            { "type": "permission", "resource": "space", "spaceType": "app.bsky.group" },
            { "type": "permission", "resource": "space", "spaceType": "*", "authority": "*" },
            { "type": "permission", "resource": "space" },
            { "type": "permission", "resource": "account", "attr": "email" },
            { "type": "permission", "resource": 5 },
            "nonsense",
        ] } } });
    let set = PermissionSet::of_lexicon(&document).unwrap();
    let expanded = |text: &str| {
        scopes(text)
            .expanded(|include| (include.set.as_str() == "com.example.authBasic").then(|| set.clone()))
            .to_string()
    };
    let space = "space:com.example.group?collection=a.b.c&action=read&manage=update";
    let repos = "repo?collection=com.example.deep.down&collection=com.example.note repo:com.example.like?action=create";
    assert_eq!(
        expanded("atproto include:com.example.authBasic?aud=did:web:example.com%23svc"),
        format!(
            "atproto {repos} rpc:com.example.get?aud=did:web:example.com%23svc rpc:com.example.any?aud=* {space}"
        )
    );
    assert_eq!(
        expanded("include:com.example.authBasic"),
        format!("{repos} rpc:com.example.any?aud=* {space}")
    );
    assert_eq!(expanded("include:com.example.other blob:*/*"), "include:com.example.other blob:*/*");
    for document in [json!({}), json!({ "defs": { "main": { "type": "record" } } }), json!([])] {
        assert!(PermissionSet::of_lexicon(&document).is_none(), "{document}");
    }
}

proptest! {
    #[test]
    fn parsed_scopes_round_trip(text in "[a-z:?=&%#*./ +A-F0-9]{0,80}") {
        if let Ok(set) = text.parse::<Scopes>() {
            prop_assert_eq!(set.to_string().parse(), Ok(set.clone()), "{}", set);
            prop_assert!(set.covers(&set));
        }
    }

    #[test]
    fn scopes_of_keywords_round_trip(words in prop::collection::vec(prop::sample::select(vec![
        "repo", "rpc", "blob", "account", "identity", "include", ":", "?", "&", "=", "collection", "action", "lxm", "aud",
        "accept", "attr", "*", "com.example.note", "did:web:example.com%23svc", "image/*", "create", "email", "manage", " "]), 1..14)) {
        if let Ok(set) = words.concat().parse::<Scopes>() {
            prop_assert_eq!(set.to_string().parse(), Ok(set.clone()), "{}", set);
        }
    }
}
