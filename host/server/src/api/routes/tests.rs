//! Tests which rules routes have.

use super::*;
use crate::access::PermissionSet;

#[test]
fn exactly_the_admin_routes_need_a_permission() {
    for route in table() {
        let is_public = route.limit().is_some();
        let is_admin =
            route.path().starts_with("/admin") || (route.path().starts_with("/api/setup") && !is_public);
        assert_eq!(is_admin, route.permissions().is_some(), "{}", route.path());
        assert!(route.permissions().is_none_or(|p| !p.is_empty()), "{}", route.path());
    }
}

#[test]
fn every_permission_is_needed_by_a_route_or_marked_as_reserved() {
    // The super user's routes need all of them.
    let table = table();
    let sets = table.iter().filter_map(Route::permissions).filter(|set| *set != PermissionSet::all());
    let needed: Vec<P> = sets.flat_map(PermissionSet::iter).collect();
    for permission in P::ALL {
        assert_eq!(needed.contains(permission), !permission.is_reserved(), "{permission}");
    }
}

#[test]
fn public_routes_have_a_rate_limit() {
    let limits: Vec<(&str, &str)> =
        table().iter().filter_map(|route| Some((route.path(), route.limit()?.name))).collect();
    let expected = [
        ("/health", "free"),
        ("/livez", "free"),
        ("/readyz", "probe"),
        ("/config", "page"),
        ("/oauth-client-metadata.json", "page"),
        ("/.well-known/did.json", "page"),
        ("/auth/login", "login"),
        ("/auth/callback", "callback"),
        ("/auth/linked-repo/info", "page"),
        ("/auth/linked-repo/start", "login"),
        ("/auth/me", "page"),
        ("/auth/logout", "page"),
        ("/auth/sessions", "page"),
        ("/auth/sessions", "page"),
        ("/auth/sessions/{id}", "page"),
        ("/link/start", "page"),
        ("/link/result", "page"),
        ("/", "page"),
        ("/dashboard", "page"),
        ("/dashboard/", "page"),
        ("/dashboard/{file}", "page"),
        ("/dashboard/assets/{file}", "page"),
        ("/login", "page"),
        ("/api/setup/status", "page"),
        ("/api/setup/attach-auth/confirm", "callback"),
        ("/settings/logo", "picture"),
        ("/view.schema.json", "page"),
        ("/xrpc/com.atproto.server.describeServer", "page"),
        ("/oauth/clients/{id}/jwks.json", "page"),
        ("/external-auth/providers", "page"),
        ("/external-auth/{plugin}/start", "page"),
        ("/external-auth/{plugin}/start", "callback"),
        ("/external-auth/{plugin}/callback", "callback"),
    ];
    assert_eq!(limits, expected);
}
