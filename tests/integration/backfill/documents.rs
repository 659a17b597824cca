//! DID documents of every broken kind: no other repo suffers, the job says what is wrong, and a retry reads the repo once
//! the document is right, without a restart.

use belvedere_standins::repos::{Fault, Site, document};

use super::*;

in_both_scenes!(broken_documents_are_named);

async fn broken_documents_are_named(scene: Scene) {
    let real = scene.network.pds_url(0);
    let with = |n: usize, document: Value| {
        scene.network.account(&account(n), 0);
        scene.network.fill(&account(n), NOTES, 2);
        scene.network.document(&account(n), document);
    };
    let service = |id: &str, endpoint: &str| json!({ "id": id, "type": "AtprotoPersonalDataServer", "serviceEndpoint": endpoint });
    with(0, json!({ "id": account(0), "service": [] }));
    with(1, document(&account(1), "http://10.1.2.3"));
    with(2, document(&account(2), "https://169.254.169.254"));
    with(3, document(&account(4), &real));
    // The first entry counts.
    with(
        4,
        json!({ "id": account(4), "service": [service("#atproto_pds", &real), service("#atproto_pds", "https://evil.example")] }),
    );
    with(5, json!({ "id": account(5), "service": [service("#other", &real)] }));
    with(
        6,
        json!({ "id": account(6), "padding": "x".repeat(5 << 20), "service": [service("#atproto_pds", &real)] }),
    );
    with(
        7,
        json!({ "id": account(7), "service": [{ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": { "uri": &real } }] }),
    );
    with(8, document(&account(8), &format!("{real}/a/path?x=1#y")));
    for n in 9..12 {
        with(n, document(&account(n), &real));
    }
    let (text, redirect, list) = (account(9), account(10), account(11));
    scene.network.faults(Site::Relay, move |query| match &query.method {
        did if *did == text => Some(Fault::Text("<html>".to_owned())),
        did if *did == redirect => Some(Fault::Redirect("https://evil.example/".to_owned())),
        did if *did == list => Some(Fault::Text("[]".to_owned())),
        _ => None,
    });
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.processed_repos), (Some(12), Some(12)));
    let mut expected: BTreeMap<_, _> =
        [0, 3, 5, 6, 7, 8, 9, 11].map(|n| (account(n), "did_doc_invalid".to_owned())).into();
    expected.extend([1, 2, 10].map(|n| (account(n), "other".to_owned())));
    let (errors, texts) = (scene.errors(&id).await, scene.error_texts(&id).await);
    assert_eq!(errors, expected, "{texts:?}");
    assert!(texts.iter().all(|text| !text.is_empty()));
    let index: Vec<_> = scene.index(NOTES).await.into_keys().collect();
    assert!(index.len() == 2 && index.iter().all(|uri| uri.contains(&account(4))), "{index:?}");

    scene.network.repair();
    for n in 0..12 {
        scene.network.account(&account(n), 0);
    }
    let (retry, job) = scene.retry(&id).await;
    assert_eq!((job.total_repos, scene.error_texts(&retry).await), (Some(11), Vec::<String>::new()));
    scene.assert_equal(NOTES).await;
}
