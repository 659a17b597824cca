//! Requests the pages of a listing, one after the other.
//!
//! PDSs give a cursor with the last page too. So the record with the lowest key is requested together with the first page:
//! the page that ends with it is the last one. A PDS that ignores `limit` or `reverse` answers that request with other
//! records, so an answer is believed only if it has the one record, and none of the first page is below it.

use std::pin::pin;

use futures_util::future::{Either, select};

use super::failure::Failure;
use super::listing::Listing;
use super::page::RecordPage;
use super::request::Server;
use belvedere_protocol::atproto::Did;

/// The next page of a listing. It has no cursor if it is known to be the last one.
pub(super) async fn next_page(
    server: &Server<'_>,
    did: &Did,
    listing: &mut Listing,
) -> Result<RecordPage, Failure> {
    let mut limit = listing.limit;
    let (page, oldest) = {
        let page = pin!(server.records(did, &listing.collection, listing.cursor(), &mut limit));
        if listing.is_new() {
            match select(page, pin!(server.oldest(did, &listing.collection))).await {
                Either::Left((page, oldest)) if page.as_ref().is_ok_and(|page| page.cursor.is_some()) => {
                    (page, oldest.await.ok())
                }
                Either::Left((page, _)) => (page, None),
                Either::Right((oldest, page)) => (page.await, oldest.ok()),
            }
        } else {
            (page.await, None)
        }
    };
    listing.limit = limit;
    let mut page = page?;
    let prefix = format!("at://{did}/{}/", listing.collection);
    if let Some(oldest) = oldest {
        listing.lowest = lowest(&page, oldest).filter(|uri| uri.starts_with(&prefix));
    }
    let follows = match (listing.last_key(), page.records.first()) {
        (Some(last), Some(first)) => first.uri < format!("{prefix}{last}"),
        _ => true,
    };
    let ends_lowest = page.records.last().is_some_and(|last| Some(&last.uri) == listing.lowest.as_ref());
    if ends_lowest && listing.is_ordered() && descends(&page) && follows {
        page.cursor = None;
    }
    Ok(page)
}

fn descends(page: &RecordPage) -> bool {
    page.records.is_sorted_by(|higher, lower| higher.uri > lower.uri)
}

/// The URI of the record with the lowest key, if `oldest`, the answer to the request for it, proves it beside this page.
fn lowest(page: &RecordPage, oldest: RecordPage) -> Option<String> {
    let [lowest] = <[_; 1]>::try_from(oldest.records).ok().filter(|_| oldest.malformed == 0)?;
    // Beside a page of one record, it may be the same answer: of a PDS that gives one each time, and ignores `reverse`.
    let is_distinct = page.records.len() > 1;
    let is_below = descends(page) && page.records.last().is_some_and(|last| lowest.uri <= last.uri);
    (is_distinct && is_below).then_some(lowest.uri)
}

#[cfg(test)]
mod tests {
    use belvedere_standins::repos::{Fault, Query, RepoNetwork, Site};

    use super::super::meter::Meter;
    use super::*;
    use belvedere_base::clock::Clock;
    use belvedere_protocol::atproto::Nsid;
    use belvedere_web::net::testing::loopback;

    const DID: &str = "did:plc:abcdefghijklmnopqrstuvwx";

    /// Reads a collection to its end. Returns how many pages were requested.
    async fn pages(network: &RepoNetwork, collection: &str) -> Result<usize, Failure> {
        let (net, clock, meter, origin) = (loopback(), Clock::system(), Meter::default(), network.pds_url(0));
        let server = Server { net: &net, clock: &clock, origin: &origin, meter: &meter };
        let (did, collection) = (Did::try_from(DID).unwrap(), Nsid::try_from(collection).unwrap());
        let mut listing = Listing::new(collection.clone());
        let before = network.queries(Site::Pds(0)).iter().filter(|query| query.is_page()).count();
        while !listing.is_done {
            let page = next_page(&server, &did, &mut listing).await?.of(&did, &collection);
            listing.take_page(&page)?;
            listing.advance(page.records.last().map(|last| last.rkey.clone()), page.next, 0)?;
        }
        Ok(network.queries(Site::Pds(0)).iter().filter(|query| query.is_page()).count() - before)
    }

    #[tokio::test]
    async fn a_page_that_ends_with_the_lowest_key_is_the_last_one() {
        let network = RepoNetwork::start(1).await;
        network.account(DID, 0);
        for (collection, records, expected) in [
            ("com.example.a", 1, 2),
            ("com.example.two", 2, 1),
            ("com.example.b", 100, 1),
            ("com.example.c", 101, 2),
            ("com.example.d", 250, 3),
        ] {
            network.fill(DID, collection, records);
            assert_eq!(pages(&network, collection).await.unwrap(), expected, "{records} records");
        }
        // An answer that is not the one lowest record proves nothing.
        for (fault, expected) in [
            (Fault::IgnoresLimitAndReverse(100), 4),
            (Fault::IgnoresLimitAndReverse(1), 251),
            (Fault::IgnoresReverse, 4),
            (Fault::IgnoresLimit(100), 4),
        ] {
            let given = fault.clone();
            network.faults(Site::Pds(0), move |_| Some(given.clone()));
            assert_eq!(pages(&network, "com.example.d").await.unwrap(), expected, "{fault:?}");
        }
        network.repair();
        // Without the lowest key, or with a list in another order, the list goes on to an empty page.
        let fails = |query: &Query| query.reverse.then(|| Fault::Status(500, Vec::new(), String::new()));
        network.faults(Site::Pds(0), fails);
        assert_eq!(pages(&network, "com.example.a").await.unwrap(), 2);
        network.faults(Site::Pds(0), |query| query.is_page().then_some(Fault::Unordered));
        assert_eq!(pages(&network, "com.example.b").await.unwrap(), 2);
        network.faults(Site::Pds(0), |query| query.is_page().then_some(Fault::Reset));
        assert!(pages(&network, "com.example.a").await.is_err());
    }
}
