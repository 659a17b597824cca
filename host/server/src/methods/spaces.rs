//! The names of the methods of permissioned spaces (spaces.md §5), and the switch for all their routes.

use std::future::ready;
use std::sync::Arc;

use crate::app::App;
use belvedere_web::http::router::Handler;

/// Methods of `com.atproto.simplespace`.
const SIMPLESPACE: [&str; 10] = [
    "createSpace",
    "getSpace",
    "updateSpace",
    "deleteSpace",
    "putMember",
    "addMember",
    "removeMember",
    "listMembers",
    "getConfig",
    "updateConfig",
];

/// Methods of `com.atproto.space`, with their aliases.
const SPACE: [&str; 24] = [
    "getSpace",
    "listSpaces",
    "createRecord",
    "putRecord",
    "deleteRecord",
    "applyWrites",
    "getRecord",
    "listRecords",
    "getLatestCommit",
    "getRepoState",
    "getRepo",
    "listRepoOps",
    "listRepos",
    "listBlobs",
    "getBlob",
    "getDelegationToken",
    "getSpaceCredential",
    "registerNotify",
    "unregisterNotify",
    "notifyWrite",
    "notifySpaceDeleted",
    "notifyCredentialRevoked",
    "getConfig",
    "updateConfig",
];

/// Methods of the service's own namespace: invites, copies of spaces of other hosts, and aliases of an earlier version.
const OWN: [&str; 23] = [
    "createInvite",
    "acceptInvite",
    "revokeInvite",
    "listInvites",
    "follow",
    "unfollow",
    "getSpace",
    "listSpaces",
    "getRecord",
    "listRecords",
    "createRecord",
    "putRecord",
    "deleteRecord",
    "applyWrites",
    "getBlob",
    "getMemberGrant",
    "getSpaceCredential",
    "createSpace",
    "updateSpace",
    "deleteSpace",
    "addMember",
    "removeMember",
    "listMembers",
];

/// Whether a method is one of spaces. `namespace` is that of the service (`SERVICE_NAMESPACE`).
pub fn is_method(namespace: &str, nsid: &str) -> bool {
    let Some((group, name)) = nsid.rsplit_once('.') else { return false };
    match group {
        "com.atproto.simplespace" => SIMPLESPACE.contains(&name),
        "com.atproto.space" => SPACE.contains(&name),
        _ => group.strip_prefix(namespace) == Some(".space") && OWN.contains(&name),
    }
}

/// A handler that refuses every call while spaces are switched off, before the caller is identified.
pub fn while_enabled(app: &Arc<App>, handler: Handler) -> Handler {
    let app = Arc::clone(app);
    Box::new(move |request, unread| match app.spaces.check_enabled() {
        Ok(()) => handler(request, unread),
        Err(off) => Box::pin(ready(Err(off.into()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_spaces() {
        for method in [
            "com.atproto.space.getRecord",
            "com.atproto.space.getRepoState",
            "com.atproto.simplespace.createSpace",
            "dev.service.space.createInvite",
            "dev.service.space.getMemberGrant",
        ] {
            assert!(is_method("dev.service", method), "{method}");
        }
        for method in [
            "com.atproto.repo.getRecord",
            "com.atproto.space.unknown",
            "dev.service.createApiClient",
            "dev.services.space.createInvite",
            "space",
        ] {
            assert!(!is_method("dev.service", method), "{method}");
        }
        assert!(is_method("com.example.app", "com.example.app.space.listInvites"));
    }
}
