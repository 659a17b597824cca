//! Tests of `parallel`: its calls are made at the same time, and everything else is as without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use super::FailureKind::{self, Limit, Memory, Runtime};
use super::Stage;
use crate::scripts::failure::FaultCode;
use crate::scripts::{CallOutcome, Lineage, OutboundHttp, Xrpc, XrpcError, limits};
use belvedere_instance::xrpc::{Answer, Call};
use belvedere_standins::recorder::recorder;
use belvedere_web::net::testing::loopback;

/// A longer wait means that calls are not made at the same time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers a method with its name. `com.example.meet` waits for others, `com.example.after` for a request over HTTP.
struct Methods {
    meeting: Barrier,
    requested: Arc<Notify>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Methods {
    fn meeting(calls: usize) -> Arc<Self> {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { meeting: Barrier::new(calls), requested: Arc::default(), running, most })
    }
}

impl Xrpc for Methods {
    fn call(&self, call: Call, _: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        async move {
            self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            match call.nsid.as_str() {
                "com.example.meet" => {
                    let _leader = self.meeting.wait().await;
                }
                "com.example.after" => self.requested.notified().await,
                "com.example.down" => return Err(XrpcError::Unavailable("timed out".to_owned())),
                _ => tokio::task::yield_now().await,
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            let answer = Answer::json(StatusCode::OK, Bytes::from(json!(call.params).to_string()));
            Ok(CallOutcome { answer, is_remote: true })
        }
        .boxed()
    }
}

async fn stage(methods: &Arc<Methods>) -> Stage {
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_xrpc(methods.clone());
    stage.services = stage.services.with_web(OutboundHttp::new(loopback(), 8));
    stage.put(&[
        ("at://did:plc:a/com.example.note/1", r#"{"text":"one"}"#),
        ("at://did:plc:a/com.example.note/2", r#"{"text":"two"}"#),
    ]);
    stage
}

/// The value of a body of `handle()` whose calls meet in this number.
async fn meeting(calls: usize, body: &str) -> Value {
    let stage = stage(&Methods::meeting(calls)).await;
    let value = tokio::time::timeout(PATIENCE, stage.handle(body)).await;
    value
        .expect("the calls are made at the same time")
        .unwrap_or_else(|failure| panic!("{body}: {failure:?}"))
}

#[tokio::test]
async fn calls_are_made_at_the_same_time_and_values_keep_their_order() {
    let body = "local function meet(n) return function() return xrpc.query('com.example.meet', { n = n }).body, 'second' end end
        return { parallel(meet(1), meet(2), meet(3)) }";
    assert_eq!(meeting(3, body).await, json!([r#"[["n","1"]]"#, r#"[["n","2"]]"#, r#"[["n","3"]]"#]));
    let several =
        "local function two() xrpc.query('com.example.meet') return xrpc.query('com.example.meet').status end
        return { parallel(two, two) }";
    assert_eq!(meeting(2, several).await, json!([200, 200]));
    let nested = "local function meet() return xrpc.query('com.example.meet').status end
        local function both() return toarray({ parallel(meet, meet) }) end
        return { parallel(both, both, meet) }";
    assert_eq!(meeting(5, nested).await, json!([[200, 200], [200, 200], 200]));
    let values = "local n = select('#', parallel())
        return { n, table.pack(parallel(function() end, function() return 7, 8 end, function() return nil end)).n }";
    assert_eq!(meeting(1, values).await, json!([0, 3]));
}

#[tokio::test]
async fn different_services_work_at_the_same_time() {
    let methods = Methods::meeting(1);
    let requested = Arc::clone(&methods.requested);
    let (address, _) = recorder(move |_| {
        requested.notify_one();
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes".to_owned()
    })
    .await;
    let stage = stage(&methods).await;
    let body = format!(
        "local answer, body, notes = parallel(
            function() return xrpc.query('com.example.after').status end,
            function() return http.get('http://{address}/').body end,
            function() return #db.query({{ collection = 'com.example.note' }}).records end)
        return {{ answer, body, notes }}"
    );
    let value = tokio::time::timeout(PATIENCE, stage.handle(&body)).await;
    assert_eq!(value.expect("the method waits for the request").unwrap(), json!([200, "yes", 2]));
}

#[tokio::test]
async fn at_most_eight_calls_are_made_at_once() {
    let methods = Methods::meeting(8);
    let stage = stage(&methods).await;
    for body in [
        "local list = {} for i = 1, 24 do list[i] = function() return xrpc.query('com.example.meet').status end end return { parallel(table.unpack(list)) }",
        "local function meet() return xrpc.query('com.example.meet').status end
         local function four() return select('#', parallel(meet, meet, meet, meet)) end
         return { parallel(four, four, four, four) }",
    ] {
        let value = tokio::time::timeout(PATIENCE, stage.handle(body)).await;
        assert!(
            value.expect("eight at once").unwrap().as_array().is_some_and(|values| values.len() % 4 == 0)
        );
    }
    assert_eq!(methods.most.load(Ordering::SeqCst), limits::PARALLEL_CALLS);
}

#[tokio::test]
async fn the_first_error_in_order_is_raised_when_all_have_ended() {
    let stage = stage(&Methods::meeting(1)).await;
    let body = "local ended = {}
        local function note(n) ended[#ended + 1] = n end
        local ok, fault = pcall(parallel,
            function() xrpc.query('com.example.get') note('first') end,
            function() db.query({ collection = 'com.example.down' }) end,
            function() error('at once') end,
            function() local ok, fault = pcall(db.query, { collection = 'com.example.down' }) note(fault.code) end)
        return { ok = ok, code = fault.code, text = tostring(fault), ended = ended }";
    let value = stage.handle(body).await.unwrap();
    assert_eq!((&value["ok"], &value["code"]), (&json!(false), &json!("unavailable")));
    assert_eq!(value["ended"], json!(["first", "unavailable"]));
    assert!(value["text"].as_str().is_some_and(|text| text.contains("get:5: db.query")), "{value}");

    let failure = |failure: super::ScriptFailure| (failure.kind, failure.line, failure.fault);
    let source = "function handle()\n parallel(function() end,\n function() local x = db.get('x') end)\n end";
    let failed = failure(stage.run(source).await.unwrap_err());
    assert_eq!(failed, (Runtime, Some(3), Some(FaultCode::BadInput)));
    let source =
        "function handle()\n parallel(function()\n error({ status = 404, error = 'NotFound' }) end)\n end";
    let failed = stage.run(source).await.unwrap_err();
    assert!(failed.is_intended() && failed.line == Some(3), "{failed:?}");
    let source = "function handle()\n pcall(parallel, function()\n error('x') end)\n error('y')\n end";
    assert_eq!(failure(stage.run(source).await.unwrap_err()), (Runtime, Some(4), None));
    for (expression, message) in [
        ("parallel(1)", "parallel: argument 1: function expected, got number"),
        ("parallel(print, nil)", "parallel: argument 2: function expected, got nil"),
        ("parallel(coroutine.yield)", "parallel: a function can't yield"),
        ("parallel(function() coroutine.yield(1, 2) end)", "parallel: a function can't yield"),
    ] {
        let got = stage.error_of(expression).await;
        assert!(got.ends_with(message), "{expression}: {got}");
    }
}

#[tokio::test]
async fn variables_that_are_to_be_closed_are_closed() {
    let stage = stage(&Methods::meeting(1)).await;
    let body = "local closed = {}
        local function closing(name) return setmetatable({}, { __close = function() closed[#closed + 1] = name db.count('com.example.note') end }) end
        pcall(parallel,
            function() local x <close> = closing('error') db.count('com.example.note') error('x') end,
            function() local x <close> = closing('yield') coroutine.yield() end,
            function() local x <close> = closing('end') return db.count('com.example.note') end)
        return closed";
    assert_eq!(stage.handle(body).await.unwrap(), json!(["yield", "error", "end"]));
}

/// A function that can not wait has its calls made at once.
#[tokio::test]
async fn coroutines_and_callbacks_of_the_script_work() {
    let stage = stage(&Methods::meeting(1)).await;
    let body = "local function count() return db.count('com.example.note') end
        local function generate() return coroutine.wrap(function() for i = 1, 3 do coroutine.yield(count() + i) end end) end
        local function sum() local sum = 0 for n in generate() do sum = sum + n end return sum end
        local function sorted() local t = { 3, 1, 2 } table.sort(t, function(a, b) return a < b and count() == 2 end) return t end
        local function replaced() return (string.gsub('ab', '.', function() return tostring(parallel(count)) end)) end
        local function indexed() return setmetatable({}, { __index = function(_, k) return k .. count() end }).x end
        local outside = { sum(), sorted(), replaced(), indexed() }
        local inside = { parallel(sum, sorted, replaced, indexed) }
        local wrapped = coroutine.wrap(function() coroutine.yield(toarray({ parallel(sum, count) })) end)()
        return { json.encode(outside) == json.encode(inside), inside, wrapped }";
    assert_eq!(stage.handle(body).await.unwrap(), json!([true, [12, [1, 2, 3], "22", "x2"], [12, 2]]));
}

/// Every function that is gathered gives the same in a task as outside of one.
#[tokio::test]
async fn gathered_functions_give_the_same() {
    let stage = stage(&Methods::meeting(1)).await;
    let body = "local calls = {
            { db.query, { collection = 'com.example.note', limit = 5 } }, { db.query, 7 }, { db.get, 'at://did:plc:a/com.example.note/1' },
            { db.count, 'com.example.note' }, { db.group, { collection = 'com.example.note', by = 'text' } },
            { db.backlinks, { collection = 'com.example.note', uri = 'at://did:plc:a/com.example.note/1' } },
            { db.link_counts, { 'at://did:plc:a/com.example.note/1' }, { n = 'com.example.note' } },
            { db.links_by, 'did:plc:a', { 'at://did:plc:a/com.example.note/1' }, { n = 'com.example.note' } },
            { db.raw, 'SELECT $1', { 'x' } }, { db.raw, 'DELETE FROM mine' }, { db.raw, '' },
            { db.page, 'SELECT $1', { 'x' }, { order = 'x', limit = 1 } },
            { db.search, { collection = 'com.example.note', fields = { 'text' }, query = 'one' } }, { db.profiles, { 'did:plc:a' } },
            { http.get, 'http://127.0.0.1:9/' }, { http.send_all, { { url = 'x' } } }, { xrpc.query, 'com.example.get', { n = 1 } },
            { xrpc.query, 'com.example.down' }, { xrpc.query_all, { { nsid = 'com.example.get' }, { nsid = 'x' } } },
            { view.page, 'com.example.get' }, { atproto.resolve_service_endpoint, 'did:plc:a' }, { atproto.resolve_handle, 'a.example' },
            { atproto.handles, { 'did:plc:a' } }, { atproto.get_labels, 'did:plc:a' }, { Record.load, 'at://did:plc:a/com.example.note/1' },
            { atproto.spaces.query, { space_uri = 'x' } }, { atproto.spaces.is_member, 'x', 'y' }, { atproto.spaces.list_members, 'x' },
            { db.count, { collection = 'com.example.note', space = 'x' } },
        }
        local function shown(value) return type(value) == 'table' and not value.code and 'table' or tostring(value) end
        local function text(...) return select('#', ...) .. tostring((...)) .. shown(select(2, ...)) .. tostring(select(2, pcall(json.encode, { ... }))) end
        local function result(call) return function() return text(pcall(table.unpack(call))) end end
        local outside, functions = {}, {}
        for i, call in ipairs(calls) do functions[i] = result(call) outside[i] = functions[i]() end
        local inside = { parallel(table.unpack(functions)) }
        local different = toarray({})
        for i = 1, #calls do if outside[i] ~= inside[i] then different[#different + 1] = { outside[i], inside[i] } end end
        return { #calls, different }";
    assert_eq!(stage.handle(body).await.unwrap(), json!([29, []]));
}

#[tokio::test]
async fn limits_are_those_of_the_same_calls_in_turn() {
    let stage = stage(&Methods::meeting(1)).await;
    // Two of the calls are made before.
    for (call, most) in [
        ("db.count('com.example.note')", limits::HOST_CALLS),
        ("http.get('http://127.0.0.1:9/')", limits::HTTP_REQUESTS),
        ("xrpc.query('com.example.get')", limits::XRPC_CALLS),
    ] {
        let body = format!(
            "local made = 0
             local function call() local _, fault = pcall(function() {call} end) if not fault or fault.code ~= 'limit' then made = made + 1 end end
             call() call()
             local list = {{}}
             for i = 1, {most} + 20 do list[i] = call end
             parallel(table.unpack(list))
             return made"
        );
        assert_eq!(stage.handle(&body).await.unwrap(), json!(most), "{call}");
    }
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(3 << 20));
    stage.put(&[("at://did:plc:a/com.example.note/1", &large)]);
    let body = "local function get() return #db.get('at://did:plc:a/com.example.note/1').text end
        local function try() local ok, value = pcall(get) return ok and 'read' or value.code end
        return { parallel(try, try, try, try, try, try, try, try) }";
    let expected = ["read", "read", "read", "read", "read", "limit", "limit", "limit"];
    assert_eq!(stage.handle(body).await.unwrap(), json!(expected), "16 MiB of rows");
}

#[tokio::test]
async fn hostile_uses_end() {
    let stage = stage(&Methods::meeting(1)).await;
    let ends: [(&str, Option<FailureKind>); 13] = [
        ("local list = {} for i = 1, 1000 do list[i] = function() return db.count('com.example.note') end end
          return select('#', parallel(table.unpack(list, 1, 990)))", None),
        ("local list = {} for i = 1, 10000 do list[i] = function() return i end end return select('#', parallel(table.unpack(list)))", None),
        ("parallel(function() db.count('com.example.note') end, function() while true do end end)", Some(Limit)),
        ("while true do pcall(parallel, function() error('x') end, coroutine.yield) end", Some(Limit)),
        ("while true do pcall(parallel, function() db.count('com.example.note') end) end", Some(Limit)),
        ("local function f() parallel(f) end f()", Some(Runtime)),
        ("local function f() parallel(f, f) end f()", Some(Limit)),
        ("local function f() pcall(parallel, f) return 1 end while true do f() end", Some(Limit)),
        ("local t = {} parallel(function() while true do t[#t + 1] = ('x'):rep(1000000) .. #t db.count('com.example.note') end end)", Some(Memory)),
        ("parallel(function() local t <close> = setmetatable({}, { __close = function() while true do end end }) coroutine.yield() end)", Some(Limit)),
        ("local first
          parallel(function() first = coroutine.running() return db.count('com.example.note') end,
                   function() coroutine.resume(first, 'x', {}) coroutine.resume(first) db.count('com.example.note') coroutine.resume(first) end)", None),
        ("local first
          parallel(function() first = coroutine.running() db.count('com.example.note') end,
                   function() coroutine.close(first) return db.count('com.example.note') end)", Some(Runtime)),
        ("local list = {}
          local function wait() list[#list + 1] = coroutine.running() db.count('com.example.note') end
          for i = 1, 50 do
            pcall(parallel, wait, wait, wait, wait, wait, wait, wait, function()
              table.sort({ 1, 2 }, function() parallel(db.backend, function() return db.count('com.example.note') end) return false end)
              for _, task in ipairs(list) do pcall(coroutine.close, task) end
            end)
          end", None),
    ];
    for (body, end) in ends {
        let ended = stage.handle(body).await;
        assert_eq!(ended.as_ref().err().map(|failure| failure.kind), end, "{body}: {ended:?}");
        assert_eq!(stage.eval("1").await, 1);
    }
}
