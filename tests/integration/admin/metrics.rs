//! `/admin/metrics`: the history of metrics.

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES};
use crate::support::app::App;
use crate::support::instance::{Answer, Instance};

async fn history(server: &Instance, query: &str) -> Answer {
    let answer = server.admin(Method::GET, &format!("/admin/metrics?{query}"), None).await;
    assert_eq!(answer.status, 200, "{query} {}", answer.text);
    answer
}

/// Label and total of each series.
fn totals(answer: &Answer) -> Vec<(String, f64)> {
    let series = answer.body["series"].as_array().unwrap().iter();
    series.map(|one| (one["label"].as_str().unwrap().to_owned(), one["total"].as_f64().unwrap())).collect()
}

crate::in_both_worlds!(
    what_the_server_does_is_in_the_history_at_once,
    records_are_counted_by_collection,
    refusals_for_the_rate_are_counted_by_client,
    a_period_is_compared_with_the_one_before,
    a_restart_keeps_the_history,
    invalid_queries_are_refused_with_the_reason
);

async fn what_the_server_does_is_in_the_history_at_once(mut world: World) {
    world = world.with_notes().await;
    let server = &world.server;
    server.bind(LIST, "function handle() if params.fail then error('no') end return {} end").await;
    let app = App::confidential(server, "busy").await;
    for _ in 0..3 {
        let answer =
            server.request(Method::GET, &format!("/xrpc/{LIST}"), &[("x-client-key", &app.key)], None).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert_eq!(server.xrpc(&format!("{LIST}?fail=1")).await.status, 500);
    server.xrpc("com.example.nothing").await;
    server.request(Method::GET, &format!("/xrpc/{LIST}"), &[], None).await;

    let requests = history(server, "metric=requests").await;
    assert_eq!(
        totals(&requests),
        [(LIST.to_owned(), 5.0), ("(unknown)".to_owned(), 1.0)],
        "{}",
        requests.text
    );
    let (times, values) = (&requests.body["times"], &requests.body["series"][0]["values"]);
    let (times, values) = (times.as_array().unwrap(), values.as_array().unwrap());
    assert_eq!((times.len(), &requests.body["step"]), (values.len(), &json!(60)), "of a young server");
    assert!((10..=12).contains(&times.len()), "{}", requests.text);
    assert!(times.iter().all(|time| time.as_i64().unwrap() % 60 == 0));
    assert!(requests.body["begins"].is_string());
    let sum: f64 = values.iter().filter_map(Value::as_f64).sum();
    assert_eq!((sum, values[0].is_null()), (5.0, true));
    assert!(totals(&history(server, "metric=request_errors").await).contains(&(LIST.to_owned(), 1.0)));
    assert!(totals(&history(server, "metric=request_ms").await)[0].1 > 0.0);
    let mut latencies = [0.0; 3];
    for (latency, name) in latencies.iter_mut().zip(["request_p50_ms", "request_p99_ms", "request_max_ms"]) {
        let found = history(server, &format!("metric={name}&label={LIST}")).await;
        *latency = totals(&found)[0].1;
    }
    let [p50, p99, max] = latencies;
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{latencies:?}");

    // All methods together.
    let combined = async |name: &str| totals(&history(server, &format!("metric={name}&combined=true")).await);
    assert_eq!(combined("requests").await, [(String::new(), 6.0)]);
    assert!(combined("request_max_ms").await[0].1 >= max);
    let all = [combined("request_p50_ms").await, combined("request_p99_ms").await];
    assert!(all.iter().all(|one| one.len() == 1 && one[0].0.is_empty()), "{all:?}");
    assert!(0.0 < all[0][0].1 && all[0][0].1 <= all[1][0].1, "{all:?}");

    // The app with the most requests.
    let clients = history(server, "metric=client_requests&top=1").await;
    let series = clients.body["series"].as_array().unwrap();
    assert_eq!(
        (&series[0]["label"], &series[0]["name"], &series[0]["total"]),
        (&json!(app.id), &json!("busy"), &json!(3.0))
    );
    assert_eq!(
        (&series[1]["label"], &series[1]["is_other"], &series[1]["total"]),
        (&json!("(other)"), &json!(true), &json!(3.0))
    );
    let one = history(server, &format!("metric=client_requests&label={}", app.id)).await;
    assert_eq!(totals(&one), [(app.id.clone(), 3.0)]);

    let script = format!("xrpc.query:{LIST}");
    assert_eq!(totals(&history(server, "metric=script_runs").await), [(script.clone(), 4.0)]);
    assert_eq!(totals(&history(server, "metric=script_errors").await), [(script.clone(), 1.0)]);
    assert!(totals(&history(server, "metric=script_instructions").await)[0].1 > 100.0);
    // A new source begins to count from zero, and the history goes on.
    server.bind(LIST, "function handle() return { new = true } end").await;
    server.xrpc(LIST).await;
    assert_eq!(totals(&history(server, "metric=script_runs").await), [(script.clone(), 5.0)]);
    // Runs are counted too if the script is replaced right after them.
    server.bind(LIST, "function handle() error('no') end").await;
    assert_eq!(server.xrpc(LIST).await.status, 500);
    server.bind(LIST, "function handle() return {} end").await;
    assert_eq!(totals(&history(server, "metric=script_errors").await), [(script, 2.0)]);

    let path = format!("/admin/scripts/{}", format!("xrpc.query:{LIST}").replace(':', "%3A"));
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    world.note(ALICE, "one", json!({ "text": "x" })).await;
    let events = history(&world.server, "metric=stream_events").await;
    assert_eq!(totals(&events), [(String::new(), 1.0)], "{}", events.text);
}

async fn records_are_counted_by_collection(mut world: World) {
    world = world.with_notes().await;
    for rkey in ["one", "two"] {
        world.note(ALICE, rkey, json!({ "text": "x" })).await;
    }
    world.delete_note(ALICE, "one").await;
    for (metric, total) in [("records_written", 2.0), ("records_deleted", 1.0)] {
        let found = history(&world.server, &format!("metric={metric}")).await;
        assert_eq!(totals(&found), [(NOTES.to_owned(), total)], "{}", found.text);
    }
}

async fn refusals_for_the_rate_are_counted_by_client(mut world: World) {
    world = world.with_notes().await;
    let server = &world.server;
    let app = App::confidential(server, "hasty").await;
    let slow = json!({ "rate_limit_capacity": 1, "rate_limit_refill_rate": 0.001 });
    let path = format!("/admin/api-clients/{}", app.id);
    assert!(server.admin(Method::PUT, &path, Some(&slow)).await.status.is_success());
    let mut refused = 0.0;
    for _ in 0..3 {
        let path = format!("/xrpc/{LIST}");
        let answer = server.request(Method::GET, &path, &[("x-client-key", &app.key)], None).await;
        refused += f64::from(u8::from(answer.status == 429));
    }
    assert!(refused >= 2.0, "{refused}");
    let found = history(server, "metric=client_rate_limited").await;
    assert_eq!(totals(&found), [(app.id.clone(), refused)], "{}", found.text);
    assert_eq!(found.body["series"][0]["name"], "hasty");
}

async fn a_period_is_compared_with_the_one_before(world: World) {
    let server = &world.server;
    server.xrpc("com.example.nothing").await;
    let now = history(server, "metric=requests").await;
    let sql = "INSERT INTO metric_history SELECT metric, at - 43200000000, 'x', 7, total, max FROM metric_history \
               WHERE metric = 'requests'";
    world.execute(sql).await;
    let until: jiff::Timestamp = now.body["until"].as_str().unwrap().parse().unwrap();
    let from = until - jiff::SignedDuration::from_hours(12);
    let found = history(server, &format!("metric=requests&from={from}&compare=previous&top=5")).await;
    assert_eq!(found.body["step"], 300, "{}", found.text);
    let sum = |values: &Value| values.as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>();
    let of = |label: &str| {
        let series = found.body["series"].as_array().unwrap().iter();
        series.clone().find(|one| one["label"] == label).cloned().unwrap_or_default()
    };
    let unknown = of("(unknown)");
    assert_eq!((sum(&unknown["values"]), sum(&unknown["previous"])), (1.0, 0.0), "{}", found.text);
    let one = history(server, &format!("metric=requests&from={from}&compare=previous&label=x")).await;
    let previous = &one.body["series"][0]["previous"];
    assert_eq!((previous.as_array().unwrap().len(), sum(previous)), (145, 7.0), "{}", one.text);
    let alone = history(server, &format!("metric=requests&from={from}&label=x")).await;
    assert!(alone.body["series"][0]["previous"].is_null(), "{}", alone.text);
}

async fn a_restart_keeps_the_history(mut world: World) {
    for _ in 0..2 {
        world.server.xrpc("com.example.nothing").await;
        assert_eq!(world.server.stop(), Some(0));
        world.server.start_again().await;
    }
    let requests = history(&world.server, "metric=requests&step=600").await;
    assert_eq!(totals(&requests), [("(unknown)".to_owned(), 2.0)], "{}", requests.text);
}

async fn invalid_queries_are_refused_with_the_reason(world: World) {
    for (query, text) in [
        ("", "missing query parameter metric"),
        ("metric=nothing", "metric must be one of stream_events, "),
        ("metric=requests&step=7", "a multiple of 60 seconds"),
        ("metric=requests&step=x", "step must be a number"),
        ("metric=requests&top=0", "top must be a number from 1 to 50"),
        ("metric=requests&top=51", "top must be a number from 1 to 50"),
        ("metric=requests&from=yesterday", "from must be an RFC 3339 time"),
        ("metric=requests&from=2030-01-01T00:00:00Z&until=2029-01-01T00:00:00Z", "from must be before until"),
        ("metric=requests&from=2020-01-01T00:00:00Z&step=300&compare=previous", "a multiple of 3600 seconds"),
        ("metric=requests&compare=x", "compare must be previous"),
        ("metric=requests&combined=x", "combined must be true or false"),
        ("metric=requests&combined=true&label=a", "leave label or combined out"),
    ] {
        let answer = world.server.admin(Method::GET, &format!("/admin/metrics?{query}"), None).await;
        assert_eq!(answer.status, 400, "{query} {}", answer.text);
        assert!(answer.error().contains(text), "{query}: {}", answer.text);
    }
    let names = world.server.admin(Method::GET, "/admin/metrics/names", None).await;
    assert_eq!(names.body["metrics"].as_array().unwrap().len(), 16);
    assert_eq!(names.body["steps"][2], json!({ "step": 3600, "kept_hours": 62 * 24 }));
}
