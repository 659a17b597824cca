//! The reads of a large index.

use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::Method;
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::data::{self, LARGE, RARE_WORD, SMALL};
use crate::http::{Run, run_each};
use crate::support::instance::{Instance, query_lexicon};

/// Few enough that a latency is that of the read, not of a queue.
const CONNECTIONS: usize = 2;

/// Requests of each case.
const REQUESTS: usize = 1_000;

/// Pages before the page that is far back.
const PAGES: usize = 999;

/// Maximum time of one request before its figure is given up.
const SLOW: Duration = Duration::from_secs(1);

/// Queries whose lists are built in: name and collection.
const LISTS: [(&str, &str); 2] = [("large", LARGE), ("small", SMALL)];

const SCRIPTS: [(&str, &str); 6] = [
    (
        "filter",
        "return db.query{ collection = collection, limit = 20, \
        filter = { field = 'likes', value = tonumber(params.value) } }",
    ),
    (
        "range",
        "return db.query{ collection = collection, limit = 20, sort = 'score', sortDirection = 'asc', \
        filter = { field = 'score', op = '>', value = tonumber(params.value) } }",
    ),
    ("sort", "return db.query{ collection = collection, limit = 20, sort = 'score' }"),
    ("search", "return db.search{ collection = collection, field = 'text', query = params.value }"),
    ("backlinks", "return db.backlinks{ collection = collection, uri = params.value, limit = 20 }"),
    ("count", "return { n = db.count(collection) }"),
];

fn nsid(name: &str) -> String {
    format!("com.example.scale.{name}")
}

/// Uploads the queries.
pub async fn upload(server: &Instance) {
    for (name, collection) in LISTS {
        server.upload(query_lexicon(&nsid(name)), Some(collection)).await;
    }
    for (name, source) in SCRIPTS {
        server.upload(query_lexicon(&nsid(name)), Some(LARGE)).await;
        server.bind(&nsid(name), &format!("function handle() {source} end")).await;
    }
}

fn path(name: &str, parameter: &str, value: &str) -> String {
    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
    format!("/xrpc/{}?limit=20&{parameter}={value}", nsid(name))
}

/// The 50th and the 99th percentile of requests to these paths, in milliseconds. Paths after one that takes longer than
/// [`SLOW`] are left out.
async fn percentiles(server: &Instance, paths: impl Iterator<Item = String>) -> anyhow::Result<String> {
    let mut paths: Vec<String> = paths.collect();
    // The first reads after a start compile the script and fill the caches of connections.
    let mut slowest = Duration::ZERO;
    for path in paths.iter().take(3) {
        let started = Instant::now();
        let answer = server.xrpc(path.trim_start_matches("/xrpc/")).await;
        if !answer.status.is_success() {
            return Ok(format!("fails: {}", answer.error()));
        }
        slowest = started.elapsed();
    }
    if slowest > SLOW {
        paths.truncate(3);
    }
    let request = |path: &String| {
        let request = http::Request::get(path).header("host", "load.test");
        request.header("x-client-key", server.client_key.clone()).body(Full::<Bytes>::default())
    };
    let requests = paths.iter().map(request).collect::<Result<Vec<_>, _>>()?;
    let run: Run = run_each(server.address, requests, CONNECTIONS).await?;
    let failed = if run.failures > 0 { format!(", {} failed", run.failures) } else { String::new() };
    Ok(format!("{:.2} / {:.2}{failed}", run.percentile(0.5), run.percentile(0.99)))
}

/// The list of the small collection.
pub async fn small_collection(server: &Instance) -> anyhow::Result<String> {
    percentiles(server, std::iter::repeat_n(path("small", "n", "1"), REQUESTS)).await
}

type Figures = Vec<(&'static str, String)>;

/// Everything that needs no field index, and what needs one, once without it.
pub async fn without_index(server: &Instance, size: usize) -> anyhow::Result<Figures> {
    let records = || data::sample(size, 0).take(REQUESTS);
    let far = path("large", "cursor", &cursor_far_back(server).await?);
    let targets = (0..REQUESTS as u64).map(|n| path("backlinks", "value", &data::target(n * 97)));
    let mut figures = vec![
        ("list, first page, ms", percentiles(server, repeat(path("large", "n", "1"))).await?),
        ("list, page 1,000, ms", percentiles(server, repeat(far)).await?),
        ("list of the small collection, ms", small_collection(server).await?),
        (
            "one record, ms",
            percentiles(server, records().map(|i| path("large", "uri", &data::uri(i)))).await?,
        ),
        (
            "list of one account, ms",
            percentiles(server, records().map(|i| path("large", "did", &data::did(i)))).await?,
        ),
        ("backlinks, ms", percentiles(server, targets).await?),
        ("count, ms", percentiles(server, repeat(path("count", "value", "1"))).await?),
    ];
    for (case, path) in [
        ("filter without an index, ms", path("filter", "value", "7")),
        ("sort without an index, ms", path("sort", "value", "1")),
        ("search without an index, ms", path("search", "value", RARE_WORD)),
    ] {
        let started = Instant::now();
        let answer = server.xrpc(path.trim_start_matches("/xrpc/")).await;
        let took = started.elapsed().as_millis();
        let ok = answer.status.is_success();
        figures.push((case, if ok { took.to_string() } else { format!("stopped after {took}") }));
    }
    Ok(figures)
}

/// Requests that need a field index, with it.
pub async fn with_index(server: &Instance, size: usize) -> anyhow::Result<Figures> {
    let values = |of: u64| (0..REQUESTS as u64).map(move |n| (n * 7_919 % of).to_string());
    let words = data::sample(size, 0).take(REQUESTS).map(|i| path("search", "value", &data::some_word(i)));
    Ok(vec![
        (
            "filter with its index, ms",
            percentiles(server, values(data::LIKES).map(|v| path("filter", "value", &v))).await?,
        ),
        ("sort with its index, ms", percentiles(server, repeat(path("sort", "value", "1"))).await?),
        (
            "sorted range with its index, ms",
            percentiles(server, values(1_000_000_007).map(|v| path("range", "value", &v))).await?,
        ),
        ("search, words of the records, ms", percentiles(server, words).await?),
        ("search, a rare word, ms", percentiles(server, repeat(path("search", "value", RARE_WORD))).await?),
        (
            "search, how one in fifty begins, ms",
            percentiles(server, repeat(path("search", "value", "good morning"))).await?,
        ),
    ])
}

fn repeat(path: String) -> impl Iterator<Item = String> {
    std::iter::repeat_n(path, REQUESTS)
}

async fn cursor_far_back(server: &Instance) -> anyhow::Result<String> {
    let first = path("large", "n", "1");
    let mut cursor = String::new();
    for n in 0..PAGES {
        let next = if n == 0 { first.clone() } else { path("large", "cursor", &cursor) };
        let page = server.xrpc(next.trim_start_matches("/xrpc/")).await;
        page.body["cursor"].as_str().with_context(|| page.text.clone())?.clone_into(&mut cursor);
    }
    Ok(cursor)
}

/// Sends the queries that need an index. Returns whether all three are ready, and how long each build took.
pub async fn index_builds(server: &Instance) -> anyhow::Result<(bool, Vec<(String, String)>)> {
    let stats = server.admin(Method::GET, "/admin/stats/indexes", None).await;
    let indexes = stats.body["indexes"].as_array().with_context(|| stats.text.clone())?;
    let failed = indexes.iter().find(|index| index["state"] == "failed");
    anyhow::ensure!(failed.is_none(), "an index can't be built: {}", stats.text);
    let ready = indexes.iter().filter(|index| index["state"] == "ready");
    let builds: Vec<_> = ready
        .map(|index| {
            let took = index["build_ms"].as_f64().unwrap_or_default() / 1e3;
            (index["kind"].as_str().unwrap_or_default().to_owned(), format!("{took:.1}"))
        })
        .collect();
    let has = |kind: &str| builds.iter().any(|(built, _)| built == kind);
    let building = indexes.iter().any(|index| index["state"] == "building");
    for (name, kind) in [("filter", "filter"), ("sort", "sort"), ("search", "search")] {
        if !building && !has(kind) {
            server.xrpc(path(name, "value", "7777777").trim_start_matches("/xrpc/")).await;
        }
    }
    Ok((["filter", "sort", "search"].into_iter().all(has), builds))
}

/// The number of indexes that exist or are being built.
pub async fn indexes(server: &Instance) -> usize {
    let stats = server.admin(Method::GET, "/admin/stats/indexes", None).await;
    let indexes = stats.body["indexes"].as_array().into_iter().flatten();
    indexes.filter(|index| index["state"] != "candidate").count()
}
