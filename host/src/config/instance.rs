//! How the instance presents itself. Admins may change all of it while it runs (`/admin/settings`).

use std::collections::BTreeMap;

use clap::Args;

use super::{Problems, parse};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Instance")]
pub struct InstanceArgs {
    /// Name of the application, as people are asked to trust it
    #[arg(long, env = "APP_NAME", global = true, value_name = "NAME")]
    pub app_name: Option<String>,
    /// Public address of the instance's own page
    #[arg(long, env = "CLIENT_URI", global = true, value_name = "URL")]
    pub client_uri: Option<String>,
    /// Address of a logo
    #[arg(long, env = "LOGO_URI", global = true, value_name = "URL")]
    pub logo_uri: Option<String>,
    /// Address of the terms of service
    #[arg(long, env = "TOS_URI", global = true, value_name = "URL")]
    pub tos_uri: Option<String>,
    /// Address of the privacy policy
    #[arg(long, env = "POLICY_URI", global = true, value_name = "URL")]
    pub policy_uri: Option<String>,
}

/// What was given, by the name of its setting.
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
        Instance(given)
    }
}
