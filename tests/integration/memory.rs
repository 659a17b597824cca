//! The memory of the server while one client's scripts take as much as they can: it stays within `MEMORY_LIMIT_MIB`, and
//! another client gets its responses.

mod effects;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belvedere_standins::database::sqlite_url;
use belvedere_standins::upstream::Upstream;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::fixtures::World;
use crate::support::instance::query_lexicon;

/// The smallest machine that the documents promise is enough (`docs/operations.md`, Sizing).
const LIMIT_MIB: &str = "512";
const LIMIT: u64 = 512_000_000;

const GREEDY: &str = "com.example.greedy";
const MODEST: &str = "com.example.modest";

/// Connections of the greedy client.
const CONNECTIONS: usize = 32;

/// Time that the greedy client goes on: each of its connections has made several requests by then.
const TIME: Duration = Duration::from_secs(10);

/// Maximum time of a response to the modest client beside the greedy one's scripts on a machine that runs other tests
/// too.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server with the greedy client's script, and another client.
struct Stage {
    world: World,
    other_client: String,
}

impl Stage {
    /// With a query of the greedy client, whose script has this body.
    async fn set(greedy: &str) -> Self {
        let stage = Self::empty(&[]).await;
        stage.offer(GREEDY, greedy).await;
        stage
    }

    /// Without a script of the greedy client. `more` are environment variables.
    async fn empty(more: &[(&'static str, &str)]) -> Self {
        let (url, directory) = sqlite_url();
        let own = [("MEMORY_LIMIT_MIB", LIMIT_MIB)];
        let world = World::on_with(&url, Some(directory), &[&own, more].concat()).await;
        let other_client = world.server.create_client("modest").await;
        let stage = Self { world, other_client };
        stage.offer(MODEST, "return { ok = true }").await;
        stage
    }

    /// Offers a query, whose script has this body.
    async fn offer(&self, query: &str, body: &str) {
        self.world.server.upload(query_lexicon(query), None).await;
        self.world.server.bind(query, &format!("function handle() {body} end")).await;
    }

    /// A request for the greedy client's query.
    fn request(&self) -> Request<Full<Bytes>> {
        let server = &self.world.server;
        let uri = format!("http://{}/xrpc/{GREEDY}", server.address);
        let request = Request::get(uri).header("host", "test").header("x-client-key", &server.client_key);
        request.body(Full::default()).unwrap()
    }

    /// Requests the modest client's query until `greedy` ends. Then checks the memory that the server had at most.
    async fn stays_within_the_limit(&self, greedy: impl Future<Output = ()>) {
        let path = format!("/xrpc/{MODEST}");
        let modest = async {
            let headers = [("x-client-key", self.other_client.as_str())];
            loop {
                let started = Instant::now();
                let answer = self.world.server.request(Method::GET, &path, &headers, None).await;
                assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
                assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = greedy => {}
            () = modest => unreachable!("it goes on for ever"),
        }
        let peak = self.peak();
        assert!(peak < LIMIT, "the server had {} MB", peak / 1_000_000);
    }

    /// The most memory that the server's process has had, in bytes.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.world.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Sends requests over many connections for so long, and until `enough` have succeeded.
    async fn many_connections(
        &self,
        time: Duration,
        enough: usize,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) {
        let (started, succeeded) = (Instant::now(), AtomicUsize::new(0));
        let goes_on = || started.elapsed() < time || succeeded.load(Ordering::Relaxed) < enough;
        let one = async || {
            let stream = TcpStream::connect(self.world.server.address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            while goes_on() {
                sender.ready().await.unwrap();
                let response = sender.send_request(request()).await.unwrap();
                let status = response.status();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                let text = String::from_utf8_lossy(&body);
                match status {
                    StatusCode::OK => _ = succeeded.fetch_add(1, Ordering::Relaxed),
                    // Its share of the memory, or of the bytes of responses, is used up.
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {}
                    // The machine is busy with other tests too.
                    _ if text.contains("execution time limit") => {}
                    other => panic!("{other}: {text}"),
                }
            }
            connection.abort();
        };
        join_all((0..CONNECTIONS).map(|_| one())).await;
    }

    async fn run_on_many_connections(&self) {
        let greedy = self.many_connections(TIME, CONNECTIONS, || self.request());
        self.stays_within_the_limit(greedy).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_fill_their_memory_stay_within_the_limit() {
    // Lua's limit, and the memory that the instance needs besides.
    let body = "local kept = {}
        pcall(function() for i = 1, 1000 do kept[i] = ('x'):rep(1 << 19) .. i end end)
        return #kept";
    Stage::set(body).await.run_on_many_connections().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_with_one_large_string_stay_within_the_limit() {
    // The string is built in a buffer, and copied.
    Stage::set("return #('x'):rep(15 << 20)").await.run_on_many_connections().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_of_other_servers_stay_within_the_limit() {
    let large = Bytes::from(vec![b'x'; 5 << 20]);
    let other = Upstream::start(move |_| Response::new(large.clone())).await;
    // Nearly as much as a run may receive.
    let body = format!(
        "local list = {{}}
         for i = 1, 3 do list[i] = {{ url = 'http://{}/' }} end
         local done, answers = pcall(http.send_all, list)
         if not done then return answers.code end
         local ok = 0
         for _, answer in ipairs(answers) do if answer.status == 200 then ok = ok + 1 end end
         return ok",
        other.address
    );
    Stage::set(&body).await.run_on_many_connections().await;
}

/// Makes a large response, and gives the processor away while it has it, so that many runs have theirs at the same time.
const RESPONSE: &str =
    "local text = ('x'):rep(8000000) for i = 1, 100 do db.count('com.example.note') end return text";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_responses_stay_within_the_limit() {
    Stage::set(RESPONSE).await.run_on_many_connections().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_never_read_stay_within_the_limit() {
    let stage = Stage::set(RESPONSE).await;
    let stream = TcpStream::connect(stage.world.server.address).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let streams = (0..100).map(|_| {
        let mut sender = sender.clone();
        let request = stage.request();
        // Keeps the response, so that the stream is not reset.
        async move { sender.send_request(request).await }
    });
    let greedy = async {
        let responses = join_all(streams).await;
        assert!(responses.iter().any(|response| response.as_ref().is_ok_and(|r| r.status().is_success())));
        tokio::time::sleep(TIME).await;
    };
    stage.stays_within_the_limit(greedy).await;
    connection.abort();
}
