//! Every permission of the admin API (admin-api.md §6), the catalogue that describes them, and sets of them.

use std::fmt;

use belvedere_web::http::Error;

macro_rules! permissions {
    ($($category:literal { $($variant:ident $key:literal $name:literal $description:literal;)+ })+) => {
        /// A permission of an admin user or an API key. The order is that of the catalogue.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Permission { $($($variant,)+)+ }

        impl Permission {
            /// All of them, in catalogue order.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)+)+];

            /// `resource:action`, the name in requests, answers and the store.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$variant => $key,)+)+ }
            }

            /// Display name, for lists.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)+)+ }
            }

            /// One sentence for the admin who grants it.
            pub const fn description(self) -> &'static str {
                match self { $($(Self::$variant => $description,)+)+ }
            }

            /// Its heading in the catalogue.
            pub const fn category(self) -> &'static str {
                match self { $($(Self::$variant => $category,)+)+ }
            }

            /// Parses `resource:action`; `None` for a name that is not a permission.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($($key => Some(Self::$variant),)+)+ _ => None }
            }
        }
    };
}

/// Permissions that no endpoint needs yet. They are granted all the same, so that users and keys made today fit later
/// versions (docs/adr/0037).
const RESERVED: &[Permission] = &[
    // Users create spaces, in their own names.
    Permission::SpacesCreate,
];

impl Permission {
    /// Whether no endpoint needs it in this version.
    pub fn is_reserved(self) -> bool {
        RESERVED.contains(&self)
    }

    /// Whether it is listed and part of templates: those of spaces are only where spaces are switched on.
    pub fn is_offered(self, has_spaces: bool) -> bool {
        has_spaces || !self.as_str().starts_with("spaces:")
    }

    /// Like [`Permission::parse`], for names in requests.
    ///
    /// # Errors
    /// 400 for a name that is not a permission.
    pub fn named(text: &str) -> Result<Self, Error> {
        Self::parse(text).ok_or_else(|| Error::bad_request(format!("{text} is not a permission")))
    }
}

permissions! {
    "Lexicons" {
        LexiconsCreate "lexicons:create" "Create lexicons" "Upload lexicons and follow lexicons of the network.";
        LexiconsRead "lexicons:read" "Read lexicons" "See the uploaded lexicons.";
        LexiconsDelete "lexicons:delete" "Delete lexicons" "Remove lexicons; indexed records stay.";
    }
    "Records" {
        RecordsRead "records:read" "Read records" "See the indexed records.";
        RecordsDelete "records:delete" "Delete records" "Remove single records from the index.";
        RecordsDeleteCollection "records:delete-collection" "Delete collections"
            "Remove all records of a collection from the index.";
    }
    "Scripts" {
        ScriptsRead "scripts:read" "Read scripts" "See scripts and their source.";
        ScriptsManage "scripts:manage" "Manage scripts"
            "Create, change and remove scripts. A script may also moderate, and issue labels in this instance's name.";
    }
    "Script Variables" {
        ScriptVariablesCreate "script-variables:create" "Set script variables"
            "Create and replace the variables that scripts read.";
        ScriptVariablesRead "script-variables:read" "Read script variables"
            "See the names of script variables and the first characters of their values.";
        ScriptVariablesDelete "script-variables:delete" "Delete script variables" "Remove script variables.";
    }
    "Users" {
        UsersCreate "users:create" "Create users" "Add admin users.";
        UsersRead "users:read" "Read users" "See admin users and their permissions.";
        UsersUpdate "users:update" "Update users" "Grant and revoke permissions of other users.";
        UsersDelete "users:delete" "Delete users" "Remove admin users.";
    }
    "API Keys" {
        ApiKeysCreate "api-keys:create" "Create API keys" "Create your own API keys.";
        ApiKeysRead "api-keys:read" "Read API keys" "See your own API keys.";
        ApiKeysDelete "api-keys:delete" "Revoke API keys" "Revoke your own API keys.";
    }
    "Backfill" {
        BackfillCreate "backfill:create" "Run backfills" "Start, pause, resume and cancel backfill jobs.";
        BackfillRead "backfill:read" "Read backfills" "See backfill jobs and their progress.";
    }
    "System" {
        StatsRead "stats:read" "Read statistics" "See how many records are indexed.";
        EventsRead "events:read" "Read events" "See the event log.";
        EventsPurge "events:purge" "Purge events" "Remove entries of the event log.";
    }
    "Moderation" {
        ModerationRead "moderation:read" "Read moderation"
            "See what is hidden and taken down here, with its content, and the labels of this instance.";
        ModerationManage "moderation:manage" "Moderate"
            "Hide and take down records and accounts, lift that, and apply labels of this instance.";
    }
    "Labelers" {
        LabelersCreate "labelers:create" "Manage labelers" "Subscribe to labelers, pause and resume them.";
        LabelersRead "labelers:read" "Read labelers" "See the labeler subscriptions.";
        LabelersDelete "labelers:delete" "Delete labelers" "End labeler subscriptions and drop their labels.";
    }
    "Settings" {
        SettingsManage "settings:manage" "Manage settings"
            "Change settings, domains, the service's identity and its entries.";
    }
    "Plugins" {
        PluginsRead "plugins:read" "Read plugins" "See plugins and which secrets they have.";
        PluginsCreate "plugins:create" "Install plugins" "Install and reload plugins and set their secrets.";
        PluginsDelete "plugins:delete" "Delete plugins" "Remove plugins.";
    }
    "API Clients" {
        ApiClientsView "api-clients:view" "View API clients" "See the applications that may call XRPC.";
        ApiClientsCreate "api-clients:create" "Create API clients" "Register applications.";
        ApiClientsEdit "api-clients:edit" "Edit API clients" "Change, activate and deactivate applications.";
        ApiClientsDelete "api-clients:delete" "Delete API clients" "Remove applications and their children.";
    }
    "Dead Letters" {
        DeadLettersRead "dead-letters:read" "Read dead letters" "See events whose script failed.";
        DeadLettersManage "dead-letters:manage" "Manage dead letters" "Dismiss, retry and reindex dead letters.";
    }
    "Spaces" {
        SpacesCreate "spaces:create" "Create spaces" "Create permissioned spaces.";
        SpacesRead "spaces:read" "Read spaces" "See permissioned spaces with their members and invites, but no records.";
        SpacesUpdate "spaces:update" "Update spaces" "Change the settings of permissioned spaces.";
        SpacesDelete "spaces:delete" "Delete spaces" "Remove permissioned spaces.";
        SpacesManageMembers "spaces:manage-members" "Manage members" "Remove members of spaces.";
        SpacesManageInvites "spaces:manage-invites" "Manage invites" "Revoke invites to spaces.";
        SpacesManageRecords "spaces:manage-records" "Manage space records" "See records in spaces, during an inspection.";
        SpacesManageCredentials "spaces:manage-credentials" "Manage credentials" "Grant and end inspections of records in spaces.";
    }
    "Jobs" {
        JobsRead "jobs:read" "Read jobs" "See background jobs.";
        JobsCreate "jobs:create" "Create jobs" "Start background jobs that scripts define, with any input.";
        JobsManage "jobs:manage" "Manage jobs" "Pause, resume and cancel background jobs.";
    }
    "Linked Repos" {
        LinkedReposRead "linked-repos:read" "Read linked repos" "See linked repos and their invites.";
        LinkedReposCreate "linked-repos:create" "Link repos" "Create grants, authorize and invite.";
        LinkedReposDelete "linked-repos:delete" "Delete linked repos" "Remove grants and their sessions.";
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of permissions: one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PermissionSet(u64);

// The set has one bit for each permission.
const _: () = assert!(Permission::ALL.len() <= u64::BITS as usize);

impl PermissionSet {
    pub const EMPTY: Self = Self(0);

    pub fn all() -> Self {
        Permission::ALL.iter().copied().collect()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |p| self.contains(*p))
    }

    /// From stored names. An unknown name (from a newer version, for example) grants nothing.
    pub fn from_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        names.into_iter().filter_map(|name| Permission::parse(name.as_ref())).collect()
    }
}

impl From<Permission> for PermissionSet {
    fn from(permission: Permission) -> Self {
        Self(1 << permission as u8)
    }
}

impl<const N: usize> From<[Permission; N]> for PermissionSet {
    fn from(permissions: [Permission; N]) -> Self {
        permissions.into_iter().collect()
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, p| bits | 1 << p as u8))
    }
}

impl fmt::Debug for PermissionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Permission::as_str)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        assert_eq!(Permission::ALL.len(), 52);
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
            assert!(!permission.description().is_empty());
        }
        assert_eq!(Permission::parse("lexicons:steal"), None);
        assert_eq!(Permission::parse("Lexicons:read"), None);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = PermissionSet::from_names(["stats:read", "linked-repos:delete", "no:such"]);
        assert!(set.contains(Permission::StatsRead));
        assert!(set.contains(Permission::LinkedReposDelete));
        assert_eq!(set.iter().count(), 2);
        assert_eq!(PermissionSet::all().iter().count(), Permission::ALL.len());
        let common = set.intersection(PermissionSet::from_names(["stats:read", "events:read"]));
        assert_eq!(format!("{common:?}"), r#"{"stats:read"}"#);
    }
}
