//! Builds the URL of a subscription from a configured address.

use url::Url;

use super::MAX_MESSAGE_BYTES;
use super::wanted::Wanted;

/// Error for an invalid stream address in the configuration.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{url}: {reason}")]
pub struct InvalidAddress {
    url: String,
    reason: &'static str,
}

/// The endpoint of a configured address: scheme `ws` or `wss`, the configured query, and the path `…/subscribe` unless it
/// is that of `network.bsky.jetstream.subscribeEvents`.
///
/// # Errors
/// When the text is not a URL with a host and one of the schemes ws, wss, http, https.
pub fn endpoint(configured: &str) -> Result<Url, InvalidAddress> {
    let invalid = |reason| InvalidAddress { url: configured.to_owned(), reason };
    // `http` and `https` are accepted and replaced with `ws` and `wss`.
    let text = configured.trim();
    let text = match text.split_once("://") {
        Some(("http", rest)) => format!("ws://{rest}"),
        Some(("https", rest)) => format!("wss://{rest}"),
        Some(("ws" | "wss", _)) => text.to_owned(),
        _ => return Err(invalid("the scheme must be ws or wss")),
    };
    let mut url = Url::parse(&text).map_err(|_| invalid("not a URL"))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("the host is missing"));
    }
    let path = url.path().trim_end_matches('/');
    if !path.ends_with("/subscribe") && !is_second_protocol(&url) {
        let path = format!("{path}/subscribe");
        url.set_path(&path);
    }
    url.set_fragment(None);
    Ok(url)
}

/// Whether the endpoint is one of `subscribeEvents`, whose parameters have other names.
fn is_second_protocol(endpoint: &Url) -> bool {
    endpoint.path().trim_end_matches('/').ends_with("/xrpc/network.bsky.jetstream.subscribeEvents")
}

/// The endpoint with the subscription's query parameters.
pub(super) fn subscription(endpoint: &Url, wanted: &Wanted, cursor: Option<i64>, compress: bool) -> Url {
    let mut url = endpoint.clone();
    let is_second = is_second_protocol(endpoint);
    let name = if is_second { "collections" } else { "wantedCollections" };
    {
        let mut query = url.query_pairs_mut();
        for filter in wanted.filters() {
            query.append_pair(name, filter);
        }
        // Without this, a frame above our limit would end the connection, and again after each reconnect.
        query.append_pair("maxMessageSizeBytes", &MAX_MESSAGE_BYTES.to_string());
        // The dictionary is that of the first protocol.
        if compress && !is_second {
            query.append_pair("compress", "true");
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", &cursor.to_string());
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::lexicons::Followed;
    use belvedere_protocol::atproto::Nsid;

    use super::*;

    #[test]
    fn endpoints() {
        for (configured, expected) in [
            ("wss://jetstream1.us-east.bsky.network", "wss://jetstream1.us-east.bsky.network/subscribe"),
            ("ws://127.0.0.1:6008/", "ws://127.0.0.1:6008/subscribe"),
            ("ws://h/subscribe", "ws://h/subscribe"),
            ("wss://h/jetstream/subscribe/?key=1", "wss://h/jetstream/subscribe/?key=1"),
            ("https://h/jetstream#x", "wss://h/jetstream/subscribe"),
            (SECOND, SECOND),
            (" http://h:80 ", "ws://h/subscribe"),
        ] {
            assert_eq!(endpoint(configured).unwrap().as_str(), expected);
        }
        for bad in ["", "h", "ftp://h", "ws://", "wss://a b"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    const SECOND: &str = "wss://h/xrpc/network.bsky.jetstream.subscribeEvents";

    #[test]
    fn the_second_protocol_has_other_parameters() {
        let collections = [Nsid::try_from("app.example.note").unwrap()].into();
        let wanted = Wanted::plan(&Followed { collections, published_lexicons: true }).unwrap();
        let url = subscription(&endpoint(SECOND).unwrap(), &wanted, Some(17), true);
        let query = "collections=app.example.note&collections=com.atproto.lexicon.schema&maxMessageSizeBytes=16777216";
        assert_eq!(url.as_str(), format!("{SECOND}?{query}&cursor=17"));
    }

    #[test]
    fn filters_are_repeated_and_the_cursor_comes_last() {
        let tracked: Arc<[Nsid]> = [Nsid::try_from("app.example.note").unwrap()].into();
        let wanted = Wanted::plan(&tracked.into()).unwrap();
        let url = subscription(&endpoint("ws://h?key=1").unwrap(), &wanted, Some(17), true);
        assert_eq!(
            url.as_str(),
            "ws://h/subscribe?key=1&wantedCollections=app.example.note&wantedCollections=com.atproto.lexicon.schema\
             &maxMessageSizeBytes=16777216&compress=true&cursor=17"
        );
        let live = subscription(&endpoint("ws://h").unwrap(), &wanted, None, false);
        assert!(!live.as_str().contains("cursor") && !live.as_str().contains("compress"));
    }
}
