//! The same for scripts that take memory outside of their instance: blobs, statements, plugins, jobs and records.

use belvedere_protocol::atproto::Cid;
use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::plugins::built;
use belvedere_standins::upstream::{Upstream, respond};
use http::HeaderName;
use serde_json::json;
use shrike::cbor::Codec;

use super::*;
use crate::fixtures::{ALICE, BOB, LIST, NOTES};
use crate::oauth::device::{App, Device, pds};
use crate::support::instance::procedure_lexicon;
use crate::support::oauth_pds::OauthPds;

/// Time for which these go on. Each connection has sent a request by then, and together they want several times the
/// limit.
const TIME: Duration = Duration::from_secs(3);

/// Requests that must succeed, where each moves tens of megabytes through a debug build.
const FEW: usize = 4;

/// Lets the runs of other connections go on, so that many have taken their memory at the same time.
const PAUSE: &str = "for i = 1, 50 do db.count('com.example.note') end";

impl Stage {
    /// Offers a procedure of the greedy client, whose script has this body, and an account that calls it with a session.
    async fn with_session(&self, body: &str) -> (OauthPds, Device) {
        let (world, server) = (&self.world, &self.world.server);
        server.upload(procedure_lexicon(GREEDY), Some(NOTES)).await;
        let trigger = format!("xrpc.procedure:{GREEDY}");
        server.bind_to(&trigger, &format!("function handle() {body} end")).await;
        let pds = pds(world, &[ALICE]).await;
        let device = App::confidential(server, "greedy").await.device(server, &pds, ALICE, json!({})).await;
        (pds, device)
    }

    /// A request for the greedy client's procedure.
    fn call(&self, device: &Device) -> Request<Full<Bytes>> {
        let (server, path) = (&self.world.server, format!("/xrpc/{GREEDY}"));
        Request::post(format!("http://{}{path}", server.address))
            .header("host", server.address.to_string())
            .header("x-client-key", &device.client_key)
            .header("authorization", format!("DPoP {}", device.token))
            .header(HeaderName::from_static("dpop"), device.proof(server, &Method::POST, &path))
            .header("content-type", "application/json")
            .body(Full::from("{}"))
            .unwrap()
    }

    /// Gives Bob a PDS with one blob of so many bytes. Returns a statement of a script that downloads it, and its server.
    async fn blob(&self, bytes: usize) -> (String, Upstream) {
        let blob = Bytes::from(vec![b'x'; bytes]);
        let cid = Cid::compute(Codec::Raw, &blob);
        let pds = Upstream::start(move |_| respond(200, "image/png", blob.clone())).await;
        self.world.plc.host(BOB, &pds.url());
        // Too many runs hold blobs, or their server is slow on a busy machine.
        let busy = "if not ok then error({ status = 429, error = blob.code }) end";
        (format!("local ok, blob = pcall(atproto.blob_download, '{BOB}', '{cid}') {busy}"), pds)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloaded_blobs_stay_within_the_limit() {
    let stage = Stage::empty(&[]).await;
    // Nearly as much as a run may hold.
    let (download, _pds) = stage.blob(48 << 20).await;
    stage.offer(GREEDY, &format!("{download} {PAUSE} return blob.size")).await;
    stage.stays_within_the_limit(stage.many_connections(TIME, FEW, || stage.request())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploaded_blobs_stay_within_the_limit() {
    let stage = Stage::empty(&[]).await;
    let (download, _pds) = stage.blob(24 << 20).await;
    let body = format!("{download} return atproto.blob_upload(blob.handle).blob.size");
    let (_alices_pds, device) = stage.with_session(&body).await;
    stage.stays_within_the_limit(stage.many_connections(TIME, FEW, || stage.call(&device))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_of_statements_stay_within_the_limit() {
    // A result has 4 MiB at most, and a value a quarter of one. Two results, and their texts, nearly fill an instance.
    let rows = ["SELECT $1 AS a"; 14].join(" UNION ALL ");
    let read = |name| {
        // The machine is busy with other tests too.
        let busy = format!("if not ok then error({{ status = 429, error = {name}.code }}) end");
        format!("local ok, {name} = pcall(db.raw, '{rows}', {{ ('x'):rep(250000) }}) {busy}")
    };
    let body = format!("{} {PAUSE} {} return #one + #two", read("one"), read("two"));
    let stage = Stage::set(&body).await;
    stage.stays_within_the_limit(stage.many_connections(TIME, FEW, || stage.request())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_plugins_stay_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, files) = (folder.path().join("hostile"), built("hostile"));
    std::fs::create_dir(&plugin).unwrap();
    std::fs::write(plugin.join("manifest.json"), &files.manifest).unwrap();
    std::fs::write(plugin.join("plugin.wasm"), &files.module).unwrap();
    let stage = Stage::empty(&[("PLUGIN_DIR", &folder.path().display().to_string())]).await;
    // The plugin makes ten megabytes and hands them to the host, which finds no server to send them to.
    let body = format!(
        "local _, fault = pcall(plugin.hostile.http, {{ url = 'https://localhost/', body = 10000000 }})
         if fault.code ~= 'upstream' then error({{ status = 429, error = fault.code }}) end
         {PAUSE} return fault.code"
    );
    stage.offer(GREEDY, &body).await;
    stage.stays_within_the_limit(stage.many_connections(TIME, CONNECTIONS, || stage.request())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_stay_within_the_limit() {
    let stage = Stage::empty(&[]).await;
    let server = &stage.world.server;
    // A job keeps its memory while it waits.
    let job = "local kept = ('x'):rep(8 << 20) job.wait(0.1) return #kept";
    server.bind_to("job.run:hungry", &format!("function handle() {job} end")).await;
    // A caller may have a hundred jobs in the queue.
    let create = "local ok, id = pcall(jobs.create, 'hungry')
        if not ok then error({ status = 429, error = id.code }) end
        return id";
    stage.offer(GREEDY, create).await;
    let caller = stage.world.plc.person(ALICE, Algorithm::Es256k);
    let request = || {
        let mut request = stage.request();
        // Without an id, which makes a token good for one use: the server remembers a thousand of a caller.
        let token = format!("Bearer {}", caller.token(&server.did(), json!({ "lxm": GREEDY, "jti": null })));
        request.headers_mut().insert("authorization", token.parse().unwrap());
        request
    };
    let greedy = async {
        stage.many_connections(TIME, CONNECTIONS, request).await;
        let path = "/admin/jobs?status=completed&limit=100";
        let completed =
            async || server.admin(Method::GET, path, None).await.body["jobs"].as_array().map_or(0, Vec::len);
        server.eventually("jobs have run", async |_| completed().await >= FEW).await;
    };
    stage.stays_within_the_limit(greedy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn written_records_with_a_script_stay_within_the_limit() {
    let mut stage = Stage::empty(&[]).await;
    stage.world = stage.world.with_notes().await;
    let record = format!("local kept = ('x'):rep(15 << 20) {PAUSE} return {{ text = tostring(#kept) }}");
    let trigger = format!("record.index:{NOTES}");
    stage.world.server.bind_to(&trigger, &format!("function handle() {record} end")).await;
    // The run that writes holds memory while the script of its record takes more.
    let body = "local kept = ('x'):rep(10 << 20) Record(collection, { text = 'a' }):save() return #kept";
    let (_pds, device) = stage.with_session(body).await;
    stage.stays_within_the_limit(stage.many_connections(TIME, CONNECTIONS, || stage.call(&device))).await;
    let listed = stage.world.server.xrpc(&format!("{LIST}?limit=100")).await;
    assert!(listed.text.contains(&(15 << 20).to_string()), "no script of a record ran: {}", listed.text);
}
