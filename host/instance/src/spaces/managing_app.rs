//! Asks the managing app of a space whether it admits a user (spaces.md §7.4).

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;
use url::form_urlencoded;

use super::services::{Proof, ServiceCall, ServiceError, Services, accepted};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::access::{Policy, ServiceRef};
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
    services: Services,
    answers: Cache<Question, bool>,
}

#[derive(Deserialize)]
struct Answer {
    authorized: bool,
}

impl ManagingApps {
    pub(super) fn new(services: Services) -> Self {
        let answers = Cache::builder().max_capacity(MAX_ANSWERS).time_to_live(ANSWER_TIME).build();
        Self { services, answers }
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
        app: &ServiceRef,
        space: &SpaceRow,
        user: &Did,
        right: Right,
        client: Option<&str>,
    ) -> Result<bool, ServiceError> {
        let endpoint = self.services.endpoint(app).await?;
        let word = if right == Right::Read { "read" } else { "write" };
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("space", &space.uri.to_string())
            .append_pair("user", user.as_str())
            .append_pair("access", word)
            .extend_pairs(client.filter(|_| right == Right::Read).map(|client| ("clientId", client)))
            .finish();
        let service = app.to_string();
        let call = ServiceCall { service: &service, endpoint: &endpoint, method: METHOD, limits: LIMITS };
        let answer = self.services.get(call, Proof::Instance, &query).await?;
        if matches!(answer.status.as_u16(), 401 | 403) {
            return Ok(false);
        }
        let answer: Answer =
            serde_json::from_slice(&accepted(answer)?.body).map_err(|_| ServiceError::Malformed)?;
        Ok(answer.authorized)
    }
}
