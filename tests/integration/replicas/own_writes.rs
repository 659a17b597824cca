//! A caller's writes are in the caller's next read, on each host, for any lag of the replicas.

use belvedere_standins::postgres::OwnServer;
use http::Method;
use serde_json::{Value, json};

use super::{DATABASE, PATIENT, first, go_on, hold, reads, servers, value, wait_until_used, world};
use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};
use crate::several_hosts::SEALING_KEY;
use crate::support::app::{App, Device};
use crate::support::instance::{Instance, procedure_lexicon, query_lexicon};
use crate::support::oauth_pds::OauthPds;

const PUT: &str = "com.example.put";
const COUNT: &str = "com.example.count";

/// Two hosts with the same replica, and the devices of two accounts.
struct Hosts {
    a: World,
    b: Instance,
    alice: Device,
    bob: Device,
    _pds: OauthPds,
}

impl Hosts {
    async fn start(primary: &OwnServer, replica: &OwnServer, lag_on_b: &str) -> Self {
        let url = replica.url(DATABASE);
        let a = world(primary, &url, &[("TOKEN_ENCRYPTION_KEY", SEALING_KEY), PATIENT]).await;
        let plc = a.plc.url();
        let same = [
            ("TOKEN_ENCRYPTION_KEY", SEALING_KEY),
            ("PLC_URL", &plc),
            ("DATABASE_READ_URLS", &url),
            ("DATABASE_READ_MAX_LAG_SECONDS", lag_on_b),
        ];
        let mut b = Instance::start_unclaimed(&primary.url(DATABASE), &a.stream.url(), &same).await;
        b.admin_key.clone_from(&a.server.admin_key);
        b.client_key.clone_from(&a.server.client_key);
        a.server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
        a.server.upload(query_lexicon(COUNT), Some(NOTES)).await;
        let script = "function handle() return { n = db.count(collection), caller = caller_did } end";
        a.server.bind(COUNT, script).await;
        let pds = OauthPds::start().await;
        for did in [ALICE, BOB] {
            a.plc.host(did, &pds.url());
        }
        let app = App::confidential(&a.server, "one").await;
        let alice = app.device(&a.server, &pds, ALICE, json!({})).await;
        let bob = app.device(&a.server, &pds, BOB, json!({})).await;
        let hosts = Self { a, b, alice, bob, _pds: pds };
        for host in [&hosts.a.server, &hosts.b] {
            host.eventually("the host knows methods and application", async |host| {
                let known = hosts.send(host, &hosts.alice, Method::GET, COUNT, None).await;
                known.0 == 200 && known.1["caller"] == ALICE
            })
            .await;
        }
        hosts
    }

    /// Sends a request to a host. Both are behind one address, which is the first's.
    async fn send(
        &self,
        host: &Instance,
        device: &Device,
        method: Method,
        nsid: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let path = format!("/xrpc/{nsid}");
        let proof = device.proof(&self.a.server, &method, &path);
        let answer = device.send(host, method, &path, &proof, body).await;
        (answer.status.as_u16(), answer.body)
    }

    async fn write(&self, host: &Instance, device: &Device) {
        let (status, body) =
            self.send(host, device, Method::POST, PUT, Some(&json!({ "text": "hello" }))).await;
        assert_eq!(status, 200, "{body}");
    }

    /// The number of notes that an account finds, with a list and with a script.
    async fn found(&self, host: &Instance, device: &Device) -> (usize, u64) {
        let list = self.send(host, device, Method::GET, LIST, None).await.1;
        let count = self.send(host, device, Method::GET, COUNT, None).await.1;
        (list["records"].as_array().unwrap().len(), count["n"].as_u64().unwrap())
    }
}

async fn listed_by_anyone(host: &Instance) -> usize {
    host.xrpc(LIST).await.body["records"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_sees_the_own_writes_on_each_host_at_once() {
    let (primary, replica) = servers(&[]).await;
    let hosts = Hosts::start(&primary, &replica, "300").await;
    let (a, b) = (&hosts.a.server, &hosts.b);
    for host in [a, b] {
        wait_until_used(host, true).await;
    }
    hold(&primary, &replica).await;
    for round in 1..=20_usize {
        let (one, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
        hosts.write(one, &hosts.alice).await;
        // At once on the host that did not write.
        assert_eq!(hosts.found(other, &hosts.alice).await, (round, round as u64));
        assert_eq!(hosts.found(one, &hosts.alice).await, (round, round as u64));
    }
    for host in [a, b] {
        assert_eq!(hosts.found(host, &hosts.bob).await, (0, 0), "others read from the replica");
        assert_eq!(listed_by_anyone(host).await, 0);
        assert_eq!(first(host).await["in_use"], true);
    }
    // A record that an admin deletes is missing for the admin's account at once, and for others later.
    go_on(&replica).await;
    for host in [a, b] {
        host.eventually("the replica answers the writer again", async |host| {
            let before = reads(host).await;
            assert_eq!(hosts.found(host, &hosts.alice).await, (20, 20));
            reads(host).await > before
        })
        .await;
        host.eventually("others see it", async |host| listed_by_anyone(host).await == 20).await;
    }
}

/// A replica that is 10 s behind: within the bound of one host and beyond that of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lags_is_used_within_the_bound() {
    let (primary, replica) = servers(&["recovery_min_apply_delay=10s"]).await;
    let hosts = Hosts::start(&primary, &replica, "3").await;
    let (a, b) = (&hosts.a.server, &hosts.b);
    wait_until_used(a, true).await;
    hosts.write(a, &hosts.alice).await;
    assert_eq!(hosts.found(a, &hosts.alice).await, (1, 1));
    let (anyone, bob) = (listed_by_anyone(a).await, hosts.found(a, &hosts.bob).await);
    let on_replica: i64 = value(&replica, "SELECT count(*) FROM records").await;
    assert_eq!((anyone, bob, on_replica), (0, (0, 0), 0));
    assert_eq!(hosts.found(b, &hosts.alice).await, (1, 1));
    assert_eq!(listed_by_anyone(b).await, 1, "the second host does not use it");
    b.eventually("the second host says why", async |host| {
        let seen = first(host).await;
        assert_eq!(seen["in_use"], false);
        seen["reason"].as_str().unwrap().contains("DATABASE_READ_MAX_LAG_SECONDS")
    })
    .await;
    a.eventually("others see it", async |host| listed_by_anyone(host).await == 1).await;
    a.eventually("the replica answers the writer again", async |host| {
        let before = reads(host).await;
        assert_eq!(hosts.found(host, &hosts.alice).await, (1, 1));
        reads(host).await > before
    })
    .await;
}
