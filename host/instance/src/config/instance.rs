//! Settings of the instance's public presentation. Admins may change them while the server runs (`/admin/settings`).

use std::collections::BTreeMap;

use clap::Args;

use super::{Problems, Setting, parse};

const SPACES_ENABLED: Setting<bool> =
    Setting { variable: "FEATURE_SPACES_ENABLED", default: false, about: "Switch permissioned spaces on" };

pub const INSPECTOR: Setting<bool> = Setting {
    variable: "SPACE_INSPECTOR_ENABLED",
    default: false,
    about: "Let operators with a grant inspect records in spaces",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Instance")]
pub struct InstanceArgs {
    /// Name of the application, shown to users whom it asks for permissions
    #[arg(long, env = "APP_NAME", global = true, value_name = "NAME")]
    pub app_name: Option<String>,
    /// URL of the instance's own page
    #[arg(long, env = "CLIENT_URI", global = true, value_name = "URL")]
    pub client_uri: Option<String>,
    /// URL of a logo
    #[arg(long, env = "LOGO_URI", global = true, value_name = "URL")]
    pub logo_uri: Option<String>,
    /// URL of the terms of service
    #[arg(long, env = "TOS_URI", global = true, value_name = "URL")]
    pub tos_uri: Option<String>,
    /// URL of the privacy policy
    #[arg(long, env = "POLICY_URI", global = true, value_name = "URL")]
    pub policy_uri: Option<String>,
    #[arg(long = "feature-spaces-enabled", env = SPACES_ENABLED.variable, help = SPACES_ENABLED.help(), global = true,
        value_name = "BOOL")]
    pub spaces_enabled: Option<String>,
    #[arg(long = "space-inspector-enabled", env = INSPECTOR.variable, help = INSPECTOR.help(), global = true,
        value_name = "BOOL")]
    pub inspector_enabled: Option<String>,
}

/// The given values, by the name of their setting.
#[derive(Clone, Debug)]
pub struct Instance(BTreeMap<String, String>);

impl Instance {
    pub fn settings(&self) -> BTreeMap<String, String> {
        self.0.clone()
    }
}

impl InstanceArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Instance {
        let mut given = BTreeMap::new();
        given.extend(parse::text(self.app_name).map(|name| ("app_name".to_owned(), name)));
        for (variable, key, value) in [
            ("CLIENT_URI", "client_uri", self.client_uri),
            ("LOGO_URI", "logo_uri", self.logo_uri),
            ("TOS_URI", "tos_uri", self.tos_uri),
            ("POLICY_URI", "policy_uri", self.policy_uri),
        ] {
            let Some(text) = parse::text(value) else { continue };
            if parse::url(variable, &text, &["http", "https"], problems).is_some() {
                given.insert(key.to_owned(), text);
            }
        }
        for (setting, key, value) in [
            (SPACES_ENABLED, "feature.spaces_enabled".to_owned(), self.spaces_enabled),
            (INSPECTOR, INSPECTOR.key(), self.inspector_enabled),
        ] {
            if let Some(text) = parse::text(value) {
                given.insert(key, setting.read(Some(text), problems).to_string());
            }
        }
        Instance(given)
    }
}
