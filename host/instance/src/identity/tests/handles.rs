//! Handles of batches, and what a failed look-up says.

use super::*;

/// A batch waits no longer than its caller allows, asks no domain that is not paid for, and tells what failed.
#[tokio::test]
async fn a_batch_of_handles_is_bounded() {
    let directory = Directory::start().await;
    let dids: Vec<Did> = (0..3).map(|n| did(&format!("did:plc:p{n}"))).collect();
    for (n, one) in dids.iter().enumerate() {
        let document = json!({"id": one, "alsoKnownAs": [format!("at://p{n}.invalid")]});
        directory.set(&format!("/{one}"), 200, document);
    }
    let resolver = directory.resolver(&clock(), true);
    resolver.owners.insert("p0.invalid".to_owned(), Ok(dids[0].clone())).await;
    resolver.owners.insert("p1.invalid".to_owned(), Ok(dids[0].clone())).await;
    let found = resolver.handles(&dids, |_| false, Duration::from_secs(5)).await;
    assert_eq!(
        found.verified,
        HashMap::from([(dids[0].clone(), "p0.invalid".to_owned())]),
        "p1 is another's"
    );
    assert!(matches!(&found.failed[..], [(did, HandleError::TooMany)] if *did == dids[2]), "{found:?}");
    assert_eq!(directory.requests(), 3);

    let (_silent, slow) = silent_hosts().await;
    let all: Vec<Did> = dids.iter().chain(&slow).cloned().collect();
    let found = resolver.handles(&all, |_| false, Duration::from_millis(50)).await;
    assert_eq!((found.verified.len(), found.failed.len()), (1, slow.len() + 1), "{found:?}");
}

/// A name server that does not answer says nothing about a handle; one that answers says that there is none.
#[tokio::test]
async fn silence_is_not_absence() {
    install_tls_provider();
    let directory = Directory::start().await;
    let plc = Url::parse(&format!("http://127.0.0.1:{}/", directory.port)).unwrap();
    let of = |dns_server| {
        let net = Client::new(OutboundPolicy { dns_server: Some(dns_server), ..OutboundPolicy::default() });
        Resolver::new(net.unwrap(), plc.clone(), clock())
    };
    // The port of a socket that is closed again.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = of(closed).account_for_read("alice.example").await.unwrap_err();
    assert!(matches!(silent, HandleError::Unreachable | HandleError::Slow), "{silent}");
    assert!(silent.is_temporary());
    let dns = belvedere_standins::dns::Dns::start().await;
    let absent = of(dns.address).account_for_read("alice.example").await.unwrap_err();
    assert!(matches!(absent, HandleError::Unknown) && !absent.is_temporary(), "{absent}");
}
