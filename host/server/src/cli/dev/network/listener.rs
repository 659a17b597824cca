//! The stand-in network on a port of this machine: for browsers, which log in there, for apps, which write to their users' PDS, and for
//! the stream.

use std::sync::Arc;

use http::{Method, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::Network;
use belvedere_base::random::Random;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::router::{Answer, Endpoint, InvalidRoute, Router};
use belvedere_web::http::{Body, Cors, Error, Http, Request, Response, server, websocket};
use belvedere_web::net::{FetchedResponse, StandInRequest};

/// Bytes of a request. Blobs are the largest.
const MAX_BODY_BYTES: usize = 100 << 20;

/// Serves the network until `drain` is cancelled.
///
/// # Errors
/// When two routes conflict, which is a mistake in this file.
pub(in crate::cli::dev) fn serve(
    listener: TcpListener,
    network: &Arc<Network>,
    drain: &CancellationToken,
) -> Result<(), InvalidRoute> {
    let mut router = Router::default();
    for (method, path) in [(Method::GET, "/"), (Method::GET, "/{*path}"), (Method::POST, "/{*path}")] {
        let network = Arc::clone(network);
        let handler = move |request: Request, body: UnreadBody| -> Answer {
            Box::pin(respond(Arc::clone(&network), request, body))
        };
        router.add(Endpoint::new(method, path, Box::new(handler)))?;
    }
    let (network, ends) = (Arc::clone(network), drain.clone());
    let handler = move |request: Request, _: UnreadBody| -> Answer {
        let answer = subscribe(&network, &ends, request);
        Box::pin(async move { answer })
    };
    router.add(Endpoint::new(Method::GET, "/subscribe", Box::new(handler)))?;
    let http = Http::new(router, Cors::new(|_| false), &Random::system(), TaskTracker::new());
    // Nothing is lost when its connections end at once.
    tokio::spawn(server::serve(listener, Arc::new(http), drain.clone(), drain.clone()));
    Ok(())
}

async fn respond(network: Arc<Network>, request: Request, body: UnreadBody) -> Result<Response, Error> {
    let body = body.read_binary(MAX_BODY_BYTES).await?;
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let url =
        Url::parse(&format!("{}{path}", network.origin())).map_err(|_| Error::bad_request("not a URL"))?;
    let (method, headers) = (request.head.method, request.head.headers);
    let FetchedResponse { status, mut headers, body } =
        network.answer(&StandInRequest { method, url, headers, body: Some(body) });
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn subscribe(
    network: &Arc<Network>,
    ends: &CancellationToken,
    mut request: Request,
) -> Result<Response, Error> {
    let cursor = request.query("cursor").and_then(|cursor| cursor.parse().ok());
    let (response, upgrade) = websocket::accept(&mut request)?;
    let (network, ends) = (Arc::clone(network), ends.clone());
    tokio::spawn(async move {
        let Ok(mut socket) = upgrade.socket().await else { return };
        ends.run_until_cancelled(network.feed(&mut socket, cursor)).await;
    });
    Ok(response)
}
