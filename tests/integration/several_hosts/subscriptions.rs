//! A client of one host gets the changes that another host writes, and resumes at any host.

use super::*;
use crate::fixtures::{LIST, NOTES};
use crate::xrpc::live::Page;
use crate::xrpc::subscription_kills::{Clients, parameter};
use crate::xrpc::subscriptions::{WATCH, connect, lexicon, next};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_reach_the_clients_of_every_host_once() {
    let mut hosts = stream::start().await;
    hosts.a.upload(lexicon(), Some(NOTES)).await;
    let has_lexicon = async || hosts.b.xrpc(WATCH).await.status == 426;
    soon("the other host has the lexicon", NOTIFIED_WITHIN, has_lexicon).await;
    let mut sockets =
        [connect(&hosts.a, "", None).await.unwrap(), connect(&hosts.b, "", None).await.unwrap()];
    hosts.write(0, 20);
    let (mut numbers, mut uris) = ([Vec::new(), Vec::new()], Vec::new());
    for (socket, numbers) in sockets.iter_mut().zip(&mut numbers) {
        for _ in 0..20 {
            let (_, message) = next(socket).await;
            numbers.push(message["seq"].as_i64().unwrap());
            uris.push(message["uri"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(numbers[0], numbers[1], "both hosts send the same");
    assert!(numbers[0].is_sorted_by(|a, b| a < b), "{numbers:?}");

    // The host that the client was connected to dies, whichever follows the stream.
    hosts.write(20, 20);
    hosts.b.kill();
    let mut resumed = connect(&hosts.a, &format!("cursor={}", numbers[1][9]), None).await.unwrap();
    uris.truncate(30);
    uris.drain(..20);
    for _ in 10..40 {
        uris.push(next(&mut resumed).await.1["uri"].as_str().unwrap().to_owned());
    }
    uris.sort_unstable();
    uris.dedup();
    assert_eq!(uris.len(), 40, "each record once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_queries_of_every_host_follow_the_writes_of_another() {
    let hosts = stream::start().await;
    let has_lexicon = async || hosts.b.xrpc(LIST).await.status == 200;
    soon("the other host has the lexicon", NOTIFIED_WITHIN, has_lexicon).await;
    let mut pages = [Page::open(&hosts.a, LIST).await.unwrap(), Page::open(&hosts.b, LIST).await.unwrap()];
    hosts.write(0, 30);
    for (page, host) in pages.iter_mut().zip([&hosts.a, &hosts.b]) {
        while page.answer["records"].as_array().unwrap().len() < 20 {
            page.receive().await;
        }
        host.eventually("all records", async |host| host.records().await == 30).await;
        page.settle(host).await;
    }
}

/// Kills one host after the other. Clients continue with the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_one_of_two_hosts_lose_and_double_nothing() {
    const BURST: i64 = 25;
    let mut hosts = stream::start().await;
    hosts.a.upload(lexicon(), Some(NOTES)).await;
    let has_lexicon = async || hosts.b.xrpc(WATCH).await.status == 426;
    soon("the other host has the lexicon", NOTIFIED_WITHIN, has_lexicon).await;
    let path = format!("/xrpc/{WATCH}?client_key={}", hosts.a.client_key);
    let clients = Clients::start(&[hosts.a.address, hosts.b.address], &path);
    let rounds = parameter("BELVEDERE_KILL_ROUNDS", 3) as i64;
    for round in 0..rounds {
        hosts.write(round * BURST, BURST);
        tokio::time::sleep(Duration::from_millis(round as u64 * 37 % 101)).await;
        let host = if round % 2 == 0 { &mut hosts.a } else { &mut hosts.b };
        host.kill();
        host.start_again().await;
    }
    clients.finish((rounds * BURST) as u64, 1).await;
}
