//! The kinds of identity that an instance has for other servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IdentityMode")]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A did:web of the instance's own host, whose document the instance serves.
    DidWeb,
    /// A did:plc of the instance's own, whose keys it holds.
    DidPlc,
    /// The DID of an account that a PDS hosts: its document names the instance's services.
    AttachAccount,
    /// No identity: service tokens are refused.
    NotExposed,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::DidWeb, Self::DidPlc, Self::AttachAccount, Self::NotExposed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::DidWeb => "did_web",
            Self::DidPlc => "did_plc",
            Self::AttachAccount => "attach_account",
            Self::NotExposed => "not_exposed",
        }
    }

    /// `None` for an unknown name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Whether the document of the DID is in the PLC directory.
    pub fn is_plc(self) -> bool {
        matches!(self, Self::DidPlc | Self::AttachAccount)
    }

    /// Whether the instance itself holds the DID's signing key.
    pub fn has_own_key(self) -> bool {
        matches!(self, Self::DidWeb | Self::DidPlc)
    }
}
