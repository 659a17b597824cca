//! Requests whole repos as CARs.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::Semaphore;

use super::car::{CarFile, Unusable};
use super::failure::{ErrorKind, Failure};
use super::meter::Source;
use super::request::Server;
use belvedere_protocol::atproto::Did;
use belvedere_web::net::{ArrivingResponse, Limits, NetError};

/// From the DNS look-up to the last byte of a CAR: the largest one at half a megabyte a second.
const CAR_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of a CAR that one permit of the memory for CARs stands for.
pub(super) const MEMORY_UNIT: usize = 1 << 20;

/// The reason why there is no CAR that can be used.
#[derive(Debug)]
pub(super) enum NoCar {
    /// The server gives CARs to no client, or not to this server.
    Refused(Failure),
    Failed(Failure),
    /// After this many bytes, it was larger than allowed.
    TooLarge(usize),
    /// After this many bytes, other CARs needed the memory.
    NoMemory(usize),
    /// It is not what it should be, and had so many bytes.
    Unusable(Unusable, usize),
}

/// The whole repo as a CAR of at most `max_bytes`, which takes its memory from `memory`.
pub(super) async fn car(
    server: &Server<'_>,
    did: &Did,
    max_bytes: usize,
    memory: &Arc<Semaphore>,
) -> Result<CarFile, NoCar> {
    let reserve = || Arc::clone(memory).try_acquire_owned().ok();
    let Some(mut reserved) = reserve() else { return Err(NoCar::NoMemory(0)) };
    let url = server.url("com.atproto.sync.getRepo", &[("did", did.as_str())]).map_err(NoCar::Failed)?;
    let limits = Limits { max_bytes, total: CAR_TIMEOUT };
    server.meter.requested(Source::Car);
    let mut bytes = BytesMut::new();
    let failed = |error, arrived| match error {
        NetError::TooLarge(_) => NoCar::TooLarge(arrived),
        error => NoCar::Failed(Failure::of_net(&error)),
    };
    let opened = server.net.open(Method::GET, url.as_str(), HeaderMap::new(), None, limits).await;
    let mut response = opened.map_err(|error| failed(error, 0))?;
    if !response.status.is_success() {
        return Err(no_car(server, response).await);
    }
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(error, bytes.len()))? {
        server.meter.received(Source::Car, chunk.len());
        while bytes.len() + chunk.len() > reserved.num_permits() * MEMORY_UNIT {
            // Waiting would be a deadlock: others may wait for what this one has.
            let Some(more) = reserve() else { return Err(NoCar::NoMemory(bytes.len())) };
            reserved.merge(more);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(CarFile { bytes: bytes.freeze(), memory: reserved })
}

/// The reason why a server responds with an error instead of a CAR.
async fn no_car(server: &Server<'_>, response: ArrivingResponse) -> NoCar {
    let status = response.status;
    let response = match response.complete().await {
        Ok(response) => response,
        Err(error) => return NoCar::Failed(Failure::of_net(&error)),
    };
    let failure = Failure::of_response(&response, server.clock.now());
    let is_about_method = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_IMPLEMENTED
    );
    if is_about_method && matches!(failure.kind, ErrorKind::Other | ErrorKind::PdsServerError) {
        NoCar::Refused(failure)
    } else {
        NoCar::Failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::repos::{Fault, RepoNetwork, Site};
    use serde_json::json;

    use super::super::meter::Meter;
    use super::*;
    use belvedere_base::clock::Clock;
    use belvedere_web::net::testing::loopback;

    #[tokio::test]
    async fn cars_are_bounded_and_share_their_memory() {
        const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";
        let (network, did) = (RepoNetwork::start(1).await, Did::try_from(DID).unwrap());
        network.serve_cars();
        network.account(DID, 0);
        for rkey in ["a", "b"] {
            network.put(
                DID,
                "com.example.note",
                rkey,
                json!({ "text": format!("{rkey}{}", "x".repeat(800_000)) }),
            );
        }
        let (net, clock, meter, origin) = (loopback(), Clock::system(), Meter::default(), network.pds_url(0));
        let server = Server { net: &net, clock: &clock, origin: &origin, meter: &meter };
        let memory = |units| Arc::new(Semaphore::new(units));

        let enough = memory(3);
        let file = car(&server, &did, 2_000_000, &enough).await.unwrap();
        assert!((1_600_000..1_700_000).contains(&file.bytes.len()), "{}", file.bytes.len());
        assert_eq!((meter.traffic().car_bytes, enough.available_permits()), (file.bytes.len() as i64, 1));
        let other = car(&server, &did, 2_000_000, &enough).await.unwrap_err();
        assert!(matches!(other, NoCar::NoMemory(bytes) if bytes > 0), "{other:?}");
        drop(file);
        assert_eq!(enough.available_permits(), 3, "given back");
        let large = car(&server, &did, 1_000_000, &enough).await.unwrap_err();
        assert!(matches!(large, NoCar::TooLarge(bytes) if bytes <= 1_000_000), "{large:?}");
        let before = meter.traffic().car_requests;
        assert!(matches!(car(&server, &did, 1_000_000, &memory(0)).await, Err(NoCar::NoMemory(0))));
        assert_eq!(meter.traffic().car_requests, before, "not even requested");

        for (status, error, is_refused, kind) in [
            (501, "MethodNotImplemented", true, ErrorKind::PdsServerError),
            (404, "XRPCNotSupported", true, ErrorKind::Other),
            (403, "", true, ErrorKind::Other),
            (400, "InvalidRequest", false, ErrorKind::Other),
            (404, "RepoNotFound", false, ErrorKind::RepoNotFound),
            (400, "RepoTakendown", false, ErrorKind::RepoTakendown),
            (503, "", false, ErrorKind::PdsServerError),
            (429, "", false, ErrorKind::RateLimited),
        ] {
            let body = format!("{{\"error\":\"{error}\"}}");
            network.faults(Site::Pds(0), move |_| Some(Fault::Status(status, Vec::new(), body.clone())));
            match car(&server, &did, 1_000_000, &enough).await {
                Err(NoCar::Refused(failure)) => {
                    assert_eq!((true, failure.kind), (is_refused, kind), "{status}");
                }
                Err(NoCar::Failed(failure)) => {
                    assert_eq!((false, failure.kind), (is_refused, kind), "{status}");
                }
                other => panic!("{status}: {other:?}"),
            }
        }
        network.faults(Site::Pds(0), |_| Some(Fault::Reset));
        let reset = car(&server, &did, 2_000_000, &enough).await.unwrap_err();
        assert!(
            matches!(reset, NoCar::Failed(Failure { kind: ErrorKind::ConnectionFailed, .. })),
            "{reset:?}"
        );
    }
}
