//! Permission templates: named sets of permissions for new users (admin-api.md §6).

use super::{Permission, PermissionSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    Viewer,
    Operator,
    Manager,
    FullAccess,
}

use Permission as P;

/// Reads everything that is not secret.
const VIEWER: &[Permission] = &[
    P::LexiconsRead,
    P::RecordsRead,
    P::ScriptVariablesRead,
    P::ScriptsRead,
    P::UsersRead,
    P::ApiKeysRead,
    P::BackfillRead,
    P::StatsRead,
    P::EventsRead,
    P::DeadLettersRead,
];

/// The additional permissions of an operator, who keeps the service running.
const OPERATOR: &[Permission] =
    &[P::BackfillCreate, P::ApiKeysCreate, P::ApiKeysDelete, P::DeadLettersManage];

/// The additional permissions of a manager, who changes what the service does, but not who its users are.
const MANAGER: &[Permission] = &[
    P::LexiconsCreate,
    P::LexiconsDelete,
    P::ScriptVariablesCreate,
    P::ScriptVariablesDelete,
    P::ScriptsManage,
    P::RecordsDelete,
    P::ModerationRead,
    P::ModerationManage,
    P::LabelersCreate,
    P::LabelersRead,
    P::LabelersDelete,
    P::SettingsManage,
    P::PluginsRead,
    P::PluginsCreate,
    P::PluginsDelete,
    P::ApiClientsView,
    P::ApiClientsCreate,
    P::ApiClientsEdit,
    P::ApiClientsDelete,
    P::SpacesCreate,
    P::SpacesRead,
    P::SpacesUpdate,
    P::SpacesDelete,
    P::SpacesManageMembers,
    P::SpacesManageInvites,
    P::SpacesManageRecords,
    P::SpacesManageCredentials,
];

impl Template {
    pub const ALL: &'static [Self] = &[Self::Viewer, Self::Operator, Self::Manager, Self::FullAccess];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Manager => "manager",
            Self::FullAccess => "full_access",
        }
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Viewer => "Viewer",
            Self::Operator => "Operator",
            Self::Manager => "Manager",
            Self::FullAccess => "Full Access",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.as_str() == text)
    }

    pub fn set(self) -> PermissionSet {
        let of = |parts: &[&[Permission]]| parts.iter().copied().flatten().copied().collect();
        match self {
            Self::Viewer => of(&[VIEWER]),
            Self::Operator => of(&[VIEWER, OPERATOR]),
            Self::Manager => of(&[VIEWER, OPERATOR, MANAGER]),
            Self::FullAccess => PermissionSet::all(),
        }
    }

    /// The permissions of a new user, in catalogue order. `has_spaces`: whether spaces are switched on.
    pub fn permissions(self, has_spaces: bool) -> Vec<Permission> {
        self.set().iter().filter(|permission| permission.is_offered(has_spaces)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_the_sizes_of_the_specification() {
        let sizes = |has_spaces: bool| -> Vec<usize> {
            Template::ALL.iter().map(|t| t.permissions(has_spaces).len()).collect()
        };
        assert_eq!(sizes(true), [10, 14, 41, 52]);
        assert_eq!(sizes(false), [10, 14, 33, 44]);
    }

    #[test]
    fn only_full_access_changes_users() {
        for template in [Template::Viewer, Template::Operator, Template::Manager] {
            for denied in
                [P::UsersCreate, P::UsersUpdate, P::RecordsDeleteCollection, P::JobsRead, P::EventsPurge]
            {
                assert!(!template.set().contains(denied), "{} has {denied}", template.as_str());
            }
        }
        assert_eq!(Template::parse("full_access"), Some(Template::FullAccess));
        assert_eq!(Template::parse("admin"), None);
    }
}
