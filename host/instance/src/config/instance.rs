//! Settings of the instance's public presentation. Admins may change them while the server runs (`/admin/settings`).

use std::collections::BTreeMap;

use clap::Args;

use super::{Problems, parse};

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
    /// Offer the permissions of spaces; this version answers their methods with 501 [default: false]
    #[arg(
        long = "feature-spaces-enabled",
        env = "FEATURE_SPACES_ENABLED",
        global = true,
        value_name = "BOOL"
    )]
    pub spaces_enabled: Option<String>,
}

/// The given values, by the name of their setting.
#[derive(Clone, Debug)]
pub struct Instance(BTreeMap<&'static str, String>);

impl Instance {
    pub fn settings(&self) -> BTreeMap<&'static str, String> {
        self.0.clone()
    }
}

impl InstanceArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Instance {
        let mut given = BTreeMap::new();
        given.extend(parse::text(self.app_name).map(|name| ("app_name", name)));
        for (variable, key, value) in [
            ("CLIENT_URI", "client_uri", self.client_uri),
            ("LOGO_URI", "logo_uri", self.logo_uri),
            ("TOS_URI", "tos_uri", self.tos_uri),
            ("POLICY_URI", "policy_uri", self.policy_uri),
        ] {
            let Some(text) = parse::text(value) else { continue };
            if parse::url(variable, &text, &["http", "https"], problems).is_some() {
                given.insert(key, text);
            }
        }
        if let Some(text) = parse::text(self.spaces_enabled) {
            let enabled = parse::flag("FEATURE_SPACES_ENABLED", Some(text), false, problems);
            given.insert("feature.spaces_enabled", enabled.to_string());
        }
        Instance(given)
    }
}
