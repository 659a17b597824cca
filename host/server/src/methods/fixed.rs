//! Methods of the server itself, which answer whatever lexicons are uploaded, unless a script replaces them. HTTP has a
//! route for each.

use std::sync::Arc;

use super::{Failure, TypedCall, describe_server, get_profile, script_of, scripted};
use crate::app::App;
use belvedere_instance::xrpc::{Answer, Call, Verb};
use belvedere_protocol::atproto::Nsid;
use belvedere_scripting::scripts::Lineage;

/// A method of the server itself that scripts can replace, and call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedMethod {
    DescribeServer,
    GetProfile,
}

impl FixedMethod {
    const ALL: [Self; 2] = [Self::DescribeServer, Self::GetProfile];

    /// Both are queries.
    pub fn of(verb: Verb, nsid: &Nsid) -> Option<Self> {
        Self::ALL.into_iter().find(|fixed| verb == Verb::Query && fixed.as_str() == nsid.as_str())
    }

    /// Whether a method has the name of one, whatever its kind.
    pub fn has_name(nsid: &str) -> bool {
        Self::ALL.into_iter().any(|fixed| fixed.as_str() == nsid)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DescribeServer => "com.atproto.server.describeServer",
            Self::GetProfile => "app.bsky.actor.getProfile",
        }
    }

    /// Answers by the method's script if there is one, else as the server does. `lineage` is that of the run that calls.
    pub(super) async fn answer(
        self,
        app: &Arc<App>,
        call: &Call,
        lineage: Option<&Lineage>,
    ) -> Result<Answer, Failure> {
        if let Some(script) = script_of(app, call) {
            let lexicon = app.registry.get(call.nsid.as_str());
            let typed = TypedCall::new(app, call)?;
            return Ok(scripted::answer(app, &script, lexicon.as_deref(), &typed, lineage).await?);
        }
        match self {
            Self::DescribeServer => Ok(describe_server::answer(app)),
            Self::GetProfile => Ok(get_profile::answer(app, call).await?),
        }
    }
}
