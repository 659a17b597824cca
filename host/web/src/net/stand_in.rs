//! Answers requests in place of the network, for tests of scripts and `belvedere dev`.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

use super::{FetchedResponse, NetError};

/// A request that a stand-in answers.
#[derive(Debug)]
pub struct StandInRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Bytes>,
}

/// Answers in place of the network. Must not block.
pub trait StandIn: fmt::Debug + Send + Sync {
    /// The response to a request that the policy permits.
    ///
    /// # Errors
    /// The error that the caller of the client gets.
    fn answer(&self, request: StandInRequest) -> Result<FetchedResponse, NetError>;

    /// The TXT records of a name.
    ///
    /// # Errors
    /// As [`Self::answer`].
    fn dns_txt(&self, name: &str) -> Result<Vec<String>, NetError>;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::StatusCode;

    use super::*;
    use crate::net::tests::LIMITS;
    use crate::net::{Client, Limits, OutboundPolicy};

    /// Answers each request with its URL.
    #[derive(Debug)]
    struct Echo;

    impl StandIn for Echo {
        fn answer(&self, request: StandInRequest) -> Result<FetchedResponse, NetError> {
            let body = request.url.to_string().into();
            Ok(FetchedResponse { status: StatusCode::OK, headers: HeaderMap::new(), body })
        }

        fn dns_txt(&self, name: &str) -> Result<Vec<String>, NetError> {
            Ok(vec![name.to_owned()])
        }
    }

    #[tokio::test]
    async fn the_policy_and_the_limits_hold_for_a_stand_in_and_no_connection_is_opened() {
        let client = Client::standing_in(OutboundPolicy::default(), Arc::new(Echo));
        let answer = client.get("https://api.invalid/a", LIMITS).await.unwrap();
        assert_eq!(answer.body, "https://api.invalid/a");
        assert_eq!(client.dns_txt("_atproto.a.invalid").await.unwrap(), ["_atproto.a.invalid"]);
        let refused = client.get("https://10.0.0.1/", LIMITS).await;
        assert!(matches!(refused, Err(NetError::Refused(_))), "{refused:?}");
        let small = Limits { max_bytes: 3, ..LIMITS };
        assert!(matches!(client.get("https://api.invalid/a", small).await, Err(NetError::TooLarge(3))));
        let url = Url::parse("wss://api.invalid/").unwrap();
        assert!(matches!(client.connect(&url).await, Err(NetError::Transport(_))));
    }
}
