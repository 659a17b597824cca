//! A database in shards, where `BELVEDERE_TEST_CITUS_URL` names a cluster: beside one PostgreSQL on the same machine (`load -- shards`), and
//! with nodes that are lost while the stream is stored (`load -- shards --interrupt COMMAND`).

use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use belvedere_base::clock::Clock;
use belvedere_standins::citus::Cluster;
use belvedere_standins::jetstream::{FakeJetstream, synthetic};
use belvedere_standins::postgres;
use http::Method;
use sqlx::Connection as _;

use crate::server::{self, COLLECTION, QUERY};
use crate::support::process::Process;
use crate::versions::{self, Side};
use crate::{Plan, postmaster, report, writing};

/// Interval between two looks at a host whose nodes are lost.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Compares both, or sends events while `interrupt` runs, a command of the shell that kills nodes and starts them again.
pub async fn run(plan: &Plan, interrupt: &str) -> anyhow::Result<()> {
    let Some(cluster) = Cluster::create("belvedere_load").await else { return Ok(()) };
    let process = Process::new(&[("DATABASE_URL", &cluster.url())]);
    for arguments in [&["migrate"][..], &["shards", "distribute", "--now"]] {
        let output = process.run(arguments);
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    if interrupt.is_empty() {
        compare(&cluster, plan).await?;
    } else {
        interrupted(&cluster, plan, interrupt).await?;
    }
    cluster.remove().await;
    Ok(())
}

async fn compare(cluster: &Cluster, plan: &Plan) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for url in cluster.servers() {
        servers.extend_from_slice(postmaster(&url).await?);
    }
    let alone = postgres::create_database().await;
    let sides = [
        Side { name: "PostgreSQL", database: Some(postmaster(&alone).await?), url: alone, binary: None },
        Side { name: "in shards", database: Some(Vec::leak(servers)), url: cluster.url(), binary: None },
    ];
    let table = versions::measure("In shards", sides, plan).await?;
    println!("\n{}\n\n{table}", report::machine());
    Ok(())
}

/// Every event that was sent is in the index afterwards, once, and the host was ready all the time.
async fn interrupted(cluster: &Cluster, plan: &Plan, command: &str) -> anyhow::Result<()> {
    let standin = FakeJetstream::start().await;
    let server = server::start(&cluster.url(), &standin.url()).await;
    server::upload_collection(&server).await;
    server::upload_query(&server).await;
    server.eventually("the stream is connected", async |_| !standin.subscriptions().is_empty()).await;
    let events: Vec<_> =
        synthetic(plan.records, writing::REPOS, COLLECTION, Clock::system().now().0).collect();
    standin.push_all(events);
    server::wait_for_records(&server, plan.records as u64 / 10).await?;

    let mut child = Command::new("sh").args(["-c", command]).spawn()?;
    let (mut answers, mut refused, mut names) = (0, 0, String::new());
    while child.try_wait()?.is_none() {
        let ready = server.request(Method::GET, "/readyz", &[], None).await;
        ensure!(ready.status == 200, "the host was not ready: {}", ready.text);
        if let Some(reason) = ready.body["checks"]["nodes"]["reason"].as_str() {
            reason.clone_into(&mut names);
        }
        let page = server.xrpc(&format!("{QUERY}?limit=20")).await;
        *(if page.status == 200 { &mut answers } else { &mut refused }) += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    server::wait_for_records(&server, plan.records as u64).await?;

    let mut connection = sqlx::PgConnection::connect(&cluster.url()).await?;
    let (stored, of_once): (i64, i64) =
        sqlx::query_as("SELECT count(*), count(DISTINCT (did_id, collection_id, rkey)) FROM records")
            .fetch_one(&mut connection)
            .await?;
    let refs: i64 = sqlx::query_scalar("SELECT count(*) FROM record_refs").fetch_one(&mut connection).await?;
    connection.close().await?;
    println!(
        "{} events, {stored} records, {of_once} of them once, {refs} links; {answers} pages and {refused} errors \
         meanwhile; /readyz: {names}",
        plan.records
    );
    let all = i64::try_from(plan.records)?;
    ensure!([stored, of_once, refs] == [all; 3], "records were lost or stored twice");
    Ok(())
}
