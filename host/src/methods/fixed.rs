//! Methods of the server itself, which answer whatever lexicons are uploaded. HTTP has a route for each.

use std::sync::Arc;

use super::{Failure, describe_server, get_profile};
use crate::app::App;
use crate::atproto::Nsid;
use crate::xrpc::{Answer, Call, Verb};

/// A method of the server itself that scripts can call too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FixedMethod {
    DescribeServer,
    GetProfile,
}

impl FixedMethod {
    /// Both are queries.
    pub(super) fn of(verb: Verb, nsid: &Nsid) -> Option<Self> {
        match (verb, nsid.as_str()) {
            (Verb::Query, "com.atproto.server.describeServer") => Some(Self::DescribeServer),
            (Verb::Query, "app.bsky.actor.getProfile") => Some(Self::GetProfile),
            _ => None,
        }
    }

    pub(super) async fn answer(self, app: &Arc<App>, call: &Call) -> Result<Answer, Failure> {
        match self {
            Self::DescribeServer => Ok(describe_server::answer(app)),
            Self::GetProfile => Ok(get_profile::answer(app, call).await?),
        }
    }
}
