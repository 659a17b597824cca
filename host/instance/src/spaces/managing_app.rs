//! Asks the managing app of a space whether it admits a user (spaces.md §7.4).

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use moka::future::Cache;
use serde::Deserialize;
use url::form_urlencoded;

use crate::core::Core;
use crate::service_identity::ServiceIdentity;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::access::{ManagingApp, Policy};
use belvedere_storage::store::spaces::SpaceId;
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_web::net::Limits;

const METHOD: &str = "com.atproto.simplespace.checkUserAccess";

/// The time for which an answer counts. So long a user keeps access whom the app no longer admits.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Answers that are kept.
const MAX_ANSWERS: u64 = 10_000;

/// A managing app has to answer in this time.
const LIMITS: Limits = Limits { max_bytes: 4 << 10, total: Duration::from_secs(5) };

/// A right that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    Read,
    Write,
}

type Question = (SpaceId, Arc<str>, Right, Option<Arc<str>>);

/// Asks managing apps, and keeps their answers for a moment.
#[derive(Debug)]
pub struct ManagingApps {
    core: Core,
    identity: ServiceIdentity,
    answers: Cache<Question, bool>,
}

#[derive(Deserialize)]
struct Answer {
    authorized: bool,
}

/// The reason why an app gave no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("its DID document can't be read: {0}")]
    Identity(#[from] crate::identity::IdentityError),
    #[error("its DID document has no service {0}")]
    NoService(String),
    #[error("this server can't sign the question: {0}")]
    Token(#[from] crate::service_identity::TokenError),
    #[error("it can't be reached: {0}")]
    Net(#[from] belvedere_web::net::NetError),
    #[error("it answers with the status {0}")]
    Status(u16),
    #[error("its answer is malformed")]
    Malformed,
}

impl ManagingApps {
    pub(super) fn new(core: Core, identity: ServiceIdentity) -> Self {
        let answers = Cache::builder().max_capacity(MAX_ANSWERS).time_to_live(ANSWER_TIME).build();
        Self { core, identity, answers }
    }

    /// Whether the managing app that a policy names admits a user. Without an answer of the app, the user is not admitted. `client`: the
    /// attested client id of the app that the user calls with.
    pub(super) async fn admits(
        &self,
        space: &SpaceRow,
        policy: &Policy,
        user: &Did,
        right: Right,
        client: Option<&str>,
    ) -> bool {
        let Policy::ManagingApp(app) = policy else { return false };
        let question: Question = (space.id, user.as_str().into(), right, client.map(Into::into));
        let ask = async {
            self.ask(app, space, user, right, client).await.unwrap_or_else(|error| {
                tracing::info!(%app, space = %space.uri, %error, "a managing app does not say whom it admits");
                false
            })
        };
        self.answers.get_with(question, ask).await
    }

    async fn ask(
        &self,
        app: &ManagingApp,
        space: &SpaceRow,
        user: &Did,
        right: Right,
        client: Option<&str>,
    ) -> Result<bool, NoAnswer> {
        let Core { resolver, net, random, clock, .. } = &self.core;
        let document = resolver.for_reads().resolve(&app.did).await?;
        let fragment = format!("#{}", app.fragment.as_deref().unwrap_or("atproto_pds"));
        let endpoint = document.endpoint(&fragment).ok_or(NoAnswer::NoService(fragment))?;
        let method = Nsid::try_from(METHOD).map_err(|_| NoAnswer::Malformed)?;
        let token = self.identity.sign_token(&app.to_string(), &method, random, clock.now())?;
        let word = if right == Right::Read { "read" } else { "write" };
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("space", &space.uri.to_string())
            .append_pair("user", user.as_str())
            .append_pair("access", word)
            .extend_pairs(client.filter(|_| right == Right::Read).map(|client| ("clientId", client)))
            .finish();
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| NoAnswer::Malformed)?;
        headers.insert(AUTHORIZATION, bearer);
        let url = format!("{endpoint}/xrpc/{METHOD}?{query}");
        let answer = net.request(http::Method::GET, &url, headers, None, LIMITS).await?;
        match answer.status.as_u16() {
            200 => {
                let answer: Answer = serde_json::from_slice(&answer.body).map_err(|_| NoAnswer::Malformed)?;
                Ok(answer.authorized)
            }
            401 | 403 => Ok(false),
            status => Err(NoAnswer::Status(status)),
        }
    }
}
