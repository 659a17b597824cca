use std::net::SocketAddr;

use belvedere_standins::dns::Dns;
use belvedere_standins::upstream::{Upstream, respond};
use belvedere_storage::store::testing::{add_account, both};
use belvedere_web::net::{Client, OutboundPolicy, install_tls_provider};
use serde_json::json;
use url::Url;

use super::*;

const ALICE: &str = "did:plc:alicealicealicealicealic";

/// Alice's handle is `HANDLE`, both ways.
const HANDLE: &str = "alice.example";

#[test]
fn a_handle_counts_for_a_day_and_its_absence_for_an_hour() {
    let known_at = Some(Timestamp(0));
    let pds = Some("https://pds.example".to_owned());
    let with_handle =
        Account { handle: Some("a.example".to_owned()), pds: pds.clone(), known_at, is_hidden: false };
    let without = Account { pds, known_at, ..Account::default() };
    let cleared = Account { known_at, ..Account::default() };
    for (hours, fresh) in [(0, [true, true]), (1, [true, false]), (23, [true, false]), (24, [false, false])] {
        let now = Timestamp(0).plus_seconds(hours * 3_600);
        assert_eq!([is_fresh(&with_handle, now), is_fresh(&without, now)], fresh, "{hours}");
        assert!(!is_fresh(&cleared, now) && !is_fresh(&Account::default(), now));
    }
}

/// A directory that knows Alice.
async fn directory() -> Upstream {
    Upstream::start(|_| {
        let document = json!({ "id": ALICE, "alsoKnownAs": [format!("at://{HANDLE}")] });
        respond(200, "application/json", document.to_string())
    })
    .await
}

fn people(db: &Db, directory: &Upstream, dns_server: SocketAddr) -> People {
    install_tls_provider();
    let plc = Url::parse(&directory.url()).unwrap();
    let trusted = vec![plc.clone()];
    let policy = OutboundPolicy { dns_server: Some(dns_server), trusted, ..OutboundPolicy::default() };
    let resolver = Resolver::new(Client::new(policy).unwrap(), plc, Clock::system());
    People::new(db.clone(), resolver, Clock::system(), Random::seeded(1))
}

/// The announcement of an identity event reaches the host that refreshes the handle too, while it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_kept_whose_document_was_invalidated_meanwhile() {
    let (directory, dns, alice) = (directory().await, Dns::start().await, Did::try_from(ALICE).unwrap());
    dns.txt(&format!("_atproto.{HANDLE}"), &format!("did={ALICE}"));
    for db in both().await {
        add_account(&db, &alice).await;
        let people = people(&db, &directory, dns.address);
        // Called between the fetch of the document and the question to the domain.
        let invalidate = |_: &Handle| {
            let (resolver, runtime) = (people.resolver.clone(), tokio::runtime::Handle::current());
            tokio::task::block_in_place(|| runtime.block_on(resolver.invalidate(&alice)));
            true
        };
        let stored = people.stored(std::slice::from_ref(&alice)).await.unwrap();
        let found = people.complete(stored, invalidate, REFRESH_TIME, true).await;
        assert_eq!(found.verified.get(&alice).map(String::as_str), Some(HANDLE), "{found:?}");
        let accounts = people.accounts(std::slice::from_ref(&alice)).await.unwrap();
        assert_eq!(accounts[ALICE].handle.as_deref(), Some(HANDLE), "{accounts:?}");
    }
}
