//! Settings of authentication.

use clap::Args;

use super::{Problems, Setting, parse};
use belvedere_protocol::atproto::Nsid;

const SERVICE_NAMESPACE: Setting<&str> = Setting {
    variable: "SERVICE_NAMESPACE",
    default: "dev.service",
    about: "Namespace of the procedures that manage API clients",
};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Authentication")]
pub struct AuthArgs {
    #[arg(long, env = SERVICE_NAMESPACE.variable, help = SERVICE_NAMESPACE.help(), global = true,
        value_name = "NSID PREFIX")]
    pub service_namespace: Option<String>,
    /// Whether DPoP proofs must contain a nonce from this server: off or required [default: off]
    #[arg(long, env = "DPOP_NONCES", global = true, value_name = "off|required")]
    pub dpop_nonces: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Auth {
    /// Reserved for the client-management procedures: `<namespace>.createApiClient` and so on.
    pub service_namespace: String,
    /// Whether DPoP proofs must contain a nonce from this server.
    pub dpop_nonces: bool,
}

impl AuthArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Auth {
        let service_namespace = SERVICE_NAMESPACE.read(self.service_namespace);
        if Nsid::try_from(format!("{service_namespace}.name").as_str()).is_err() {
            problems.add(
                SERVICE_NAMESPACE.variable,
                format!("{service_namespace:?} is not the beginning of an NSID"),
            );
        }
        let dpop_nonces = match parse::text(self.dpop_nonces).as_deref() {
            None | Some("off") => false,
            Some("required") => true,
            Some(other) => {
                problems.add("DPOP_NONCES", format!("{other:?} is neither off nor required"));
                false
            }
        };
        Auth { service_namespace, dpop_nonces }
    }
}
