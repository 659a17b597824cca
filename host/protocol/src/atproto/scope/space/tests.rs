use super::super::{Need, Scope, Scopes};
use super::*;

fn scopes(text: &str) -> Scopes {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parsed_scopes_are_written_without_defaults() {
    for (text, written) in [
        ("space:com.example.group", "space:com.example.group"),
        ("space?spaceType=com.example.group&skey=*&authority=self", "space:com.example.group"),
        ("space:*?authority=*", "space:*?authority=*"),
        ("space:a.b.c?action=delete&action=read&action=update&action=create", "space:a.b.c"),
        ("space:a.b.c?action=read_self", "space:a.b.c?action=read_self"),
        (
            "space:a.b.c?manage=update&collection=x.y.z&collection=x.y.w&skey=main&authority=did:web:a.example",
            "space:a.b.c?authority=did:web:a.example&skey=main&collection=x.y.w&collection=x.y.z&manage=update",
        ),
        ("space:a.b.c?collection=*", "space:a.b.c?collection=*"),
    ] {
        assert_eq!(scopes(text).to_string(), written);
        assert_eq!(scopes(written), scopes(text));
    }
    for wrong in [
        "space",
        "space:",
        "space:group",
        "space:a.b.c?spaceType=a.b.c",
        "space:a.b.c?authority=alice.test",
        "space:a.b.c?authority=*&authority=self",
        "space:a.b.c?skey=a/b",
        "space:a.b.c?collection=note",
        "space:a.b.c?action=write",
        "space:a.b.c?manage=read",
        "space:a.b.c?type=a.b.c",
    ] {
        assert!(wrong.parse::<Scope>().is_err(), "{wrong}");
    }
}

#[test]
fn a_scope_allows_exactly_its_part() {
    let authority = SpaceAuthority::Did(Did::try_from("did:web:a.example").unwrap());
    let at = SpacePlace { kind: Some("a.b.c"), authority: &authority, skey: Some("main") };
    let need = |collection, is_declared, action| Need::Space {
        at,
        collection: Some(collection),
        is_declared,
        action,
    };
    let create = need("x.y.z", true, SpaceAction::Create);
    let undeclared = need("x.y.z", false, SpaceAction::Create);
    let read_self = need("x.y.z", true, SpaceAction::ReadSelf);
    let read = need("x.y.z", true, SpaceAction::Read);
    let manage = Need::ManageSpace { at, action: SpaceManage::Update };
    for (text, need, is_allowed) in [
        ("space:a.b.c", create, false),
        ("space:a.b.c?authority=did:web:a.example", create, true),
        ("space:a.b.c?authority=did:web:a.example", undeclared, false),
        ("space:a.b.c?authority=*&collection=*", undeclared, true),
        ("space:a.b.c?authority=*&collection=x.y.z", undeclared, true),
        ("space:a.b.c?authority=*&collection=x.y.w", create, false),
        ("space:a.b.d?authority=*", create, false),
        ("space:*?authority=*", create, true),
        ("space:*?authority=*&skey=main", create, true),
        ("space:*?authority=*&skey=other", create, false),
        ("space:*?authority=*&action=read", create, false),
        ("space:*?authority=*&action=read", read_self, true),
        ("space:*?authority=*&action=read_self", read_self, true),
        ("space:*?authority=*&action=read_self", read, false),
        ("space:*?authority=*", manage, false),
        ("space:*?authority=*&manage=update", manage, true),
        ("space:*?authority=*&manage=delete", manage, false),
        ("transition:generic repo:*", create, false),
    ] {
        assert_eq!(scopes(text).allows(&need), is_allowed, "{text}: {need:?}");
    }
    let granted = scopes("atproto space:a.b.c space:a.b.d?authority=*")
        .granted_by(&Did::try_from("did:web:a.example").unwrap());
    assert_eq!(
        granted.to_string(),
        "atproto space:a.b.c?authority=did:web:a.example space:a.b.d?authority=*"
    );
}

#[test]
fn scopes_of_spaces_are_compared_and_intersected() {
    for (a, b, both, covers) in [
        ("space:a.b.c", "space:a.b.c?action=read", "space:a.b.c?action=read", true),
        ("space:*?authority=*", "space:a.b.c?skey=k", "space:a.b.c?skey=k", true),
        ("space:a.b.c", "space:a.b.c?authority=*", "space:a.b.c", false),
        ("space:a.b.c", "space:a.b.d", "", false),
        ("space:a.b.c?collection=*", "space:a.b.c", "space:a.b.c", true),
        ("space:a.b.c", "space:a.b.c?collection=x.y.z", "", false),
        ("space:a.b.c?action=read", "space:a.b.c?action=read_self", "space:a.b.c?action=read_self", true),
        ("space:a.b.c?manage=update", "space:a.b.c", "space:a.b.c", true),
        ("space:a.b.c", "space:a.b.c?manage=update", "space:a.b.c", false),
        ("space:a.b.c?skey=a", "space:a.b.c?skey=b", "", false),
        ("space:a.b.c?action=create&manage=update", "space:a.b.c?action=read&manage=update", "", false),
        ("space:a.b.c", "repo:*", "", false),
    ] {
        let (a, b) = (scopes(a), scopes(b));
        assert_eq!(a.intersection(&b, |_| None).to_string(), both, "{a} and {b}");
        assert_eq!(b.intersection(&a, |_| None).to_string(), both, "{b} and {a}");
        assert_eq!(a.covers(&b), covers, "{a} covers {b}");
    }
}
