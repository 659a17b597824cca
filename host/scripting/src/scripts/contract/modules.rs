//! The modules of v3. Their names have a dot, which those of libraries never have.

/// The names, as `guest-lua/prelude/v3` registers them.
pub(in crate::scripts) const MODULES: [&str; 19] = [
    "internal.logging",
    "internal.time",
    "internal.tids",
    "internal.json",
    "happyview.db",
    "happyview.sql",
    "happyview.backlinks",
    "happyview.record",
    "happyview.xrpc",
    "happyview.atproto",
    "happyview.spaces",
    "happyview.linked_repos",
    "happyview.jobs",
    "happyview.http",
    "happyview.blobs",
    "belvedere.labels",
    "belvedere.moderation",
    "belvedere.plugin",
    "belvedere.view",
];

pub(in crate::scripts) fn is_module(name: &str) -> bool {
    MODULES.contains(&name)
}

/// The error for a name that can only be a module, and is none.
pub(in crate::scripts) fn unknown_module(name: &str) -> Option<String> {
    let is_module_name = name.contains('.');
    is_module_name.then(|| format!("there is no module {name:?}; the modules are {}", MODULES.join(", ")))
}
