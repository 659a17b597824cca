//! `/admin/jobs`, and the jobs behind it.

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, NOTES, World};
use crate::oauth::device::{App, pds};
use crate::support::instance::{Answer, Instance, procedure_lexicon, query_lexicon};
use crate::support::plc::Person;

const CALLER: &str = "did:plc:callercallercallercallerc";
const START: &str = "com.example.start";

/// A query that creates a job with the given type and input.
const STARTER: &str = "function handle() \
    local input = json.decode(params.input or '{}') \
    return jobs.create(params.type, input, { auth = params.auth == '1' }) end";

async fn store(server: &Instance, id: &str, source: &str) {
    let answer =
        server.admin(Method::POST, "/admin/scripts", Some(&json!({ "id": id, "body": source }))).await;
    assert!(answer.status.is_success(), "{}", answer.text);
}

async fn prepare(world: &World) -> Person {
    world.server.upload(query_lexicon(START), None).await;
    world.server.bind(START, STARTER).await;
    world.plc.person(CALLER, Algorithm::Es256k)
}

async fn call(world: &World, caller: &Person, query: &str) -> Answer {
    let server = &world.server;
    let audience = format!("did:web:127.0.0.1%3A{}", server.address.port());
    let token = format!("Bearer {}", caller.token(&audience, json!({ "lxm": START })));
    let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
    server.request(Method::GET, &format!("/xrpc/{START}?{query}"), &headers, None).await
}

async fn create(world: &World, caller: &Person, query: &str) -> String {
    let answer = call(world, caller, query).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body.as_str().unwrap().to_owned()
}

async fn job(server: &Instance, id: &str) -> Value {
    server.admin(Method::GET, &format!("/admin/jobs/{id}"), None).await.body
}

async fn until(server: &Instance, id: &str, status: &str) -> Value {
    server.eventually(&format!("{id} is {status}"), async |s| job(s, id).await["status"] == status).await;
    job(server, id).await
}

async fn control(server: &Instance, id: &str, verb: &str) -> (u16, Value) {
    let answer = server.admin(Method::POST, &format!("/admin/jobs/{id}/{verb}"), None).await;
    (answer.status.as_u16(), answer.body)
}

const WAITING: &str = "function handle() \
    job.progress({ at = 1 }) \
    while not job.should_stop() do job.wait(0.05) end \
    return 'stopped' end";

crate::in_both_worlds!(
    a_job_runs_on_behalf_of_its_creator,
    an_operator_starts_a_job,
    v3_scripts_read_jobs,
    a_job_acts_only_with_a_session_that_its_creator_proved,
    a_job_is_paused_resumed_and_cancelled,
    a_job_that_ignores_cancellation_is_cancelled_within_a_second,
    one_creator_never_uses_all_workers,
    a_running_job_restarts_after_a_restart_of_the_server,
    the_instruction_limit_of_a_job_applies_between_two_calls,
    creating_an_invalid_job_is_an_error_in_the_script
);

/// The newest events of a kind, once there are so many: they are stored after what they report.
async fn events(server: &Instance, which: &str, count: usize) -> Vec<Value> {
    let path = format!("/admin/events?{which}");
    let stored = async |server: &Instance| {
        server.admin(Method::GET, &path, None).await.body["events"].as_array().unwrap().len() == count
    };
    server.eventually(&format!("{count} events of {which}"), stored).await;
    server.admin(Method::GET, &path, None).await.body["events"].as_array().unwrap().clone()
}

async fn a_job_runs_on_behalf_of_its_creator(world: World) {
    let caller = prepare(&world).await;
    store(
        &world.server,
        "job.run:sum",
        "function handle() \
        job.progress({ done = 1, of = #job.input.numbers }) \
        local sum = 0 for _, n in ipairs(job.input.numbers) do sum = sum + n end \
        return { sum = sum, for_whom = caller_did, id = job.id } end",
    )
    .await;
    let id = create(&world, &caller, "type=sum&input=%7B%22numbers%22%3A%5B1%2C2%2C3%5D%7D").await;
    let done = until(&world.server, &id, "completed").await;
    assert_eq!(done["result"], json!({ "sum": 6, "for_whom": CALLER, "id": id }));
    assert_eq!(
        (&done["progress"], &done["input"]),
        (&json!({ "done": 1, "of": 3 }), &json!({ "numbers": [1, 2, 3] }))
    );
    assert_eq!(
        (&done["created_by"], &done["inherit_auth"], &done["error"]),
        (&json!(CALLER), &json!(false), &Value::Null)
    );
    let seen = events(&world.server, "category=job", 2).await;
    let seen: Vec<_> = seen.iter().map(|event| (&event["event_type"], &event["detail"])).collect();
    let completed = json!({ "job_id": id, "result": done["result"] });
    let started = json!({ "job_id": id, "job_type": "sum" });
    assert_eq!(seen, [(&json!("job.completed"), &completed), (&json!("job.started"), &started)]);
    // Secrets in a result are not logged.
    store(&world.server, "job.run:secret", "function handle() return { token = 'abc', count = 1 } end").await;
    let id = create(&world, &caller, "type=secret").await;
    assert_eq!(until(&world.server, &id, "completed").await["result"]["token"], "abc");
    let completed = events(&world.server, "event_type=job.completed", 2).await;
    let expected = json!({ "job_id": id, "result": { "token": "[redacted]", "count": 1 } });
    assert_eq!(completed[0]["detail"], expected);

    // An error, a result that is too large, and a missing session.
    store(&world.server, "job.run:broken", "function handle() error('no luck') end").await;
    store(&world.server, "job.run:large", "function handle() return ('x'):rep(300000) end").await;
    for (kind, error) in [("broken", "no luck"), ("large", "the result is larger")] {
        let id = create(&world, &caller, &format!("type={kind}")).await;
        let failed = until(&world.server, &id, "failed").await;
        assert!(failed["error"].as_str().unwrap().contains(error), "{failed}");
    }
    // A caller with a service token has no session for a job.
    assert_eq!(call(&world, &caller, "type=sum&auth=1").await.status, 500);
}

async fn an_operator_starts_a_job(world: World) {
    let server = &world.server;
    let start = async |body: Value| server.admin(Method::POST, "/admin/jobs", Some(&body)).await;
    let none = start(json!({ "type": "sum" })).await;
    assert_eq!(none.status, 404);
    let error = none.body["error"].as_str().unwrap();
    assert!(
        error.ends_with("no script is for jobs yet: save one for the trigger job.run:TYPE first"),
        "{error}"
    );

    store(server, "job.run:sum", "function handle() return { input = job.input, who = caller_did } end")
        .await;
    store(
        server,
        "job.run:act",
        "function handle() return pcall(jobs.create, 'sum', {}, { auth = true }) end",
    )
    .await;
    let started = start(json!({ "type": "sum", "input": { "n": 1.50, "text": "a\u{2028}ü" } })).await;
    assert_eq!(
        (started.status.as_u16(), &started.body["job_type"]),
        (201, &json!("sum")),
        "{}",
        started.text
    );
    assert_eq!(started.body["inherit_auth"], false);
    let (id, actor) = (started.body["id"].as_str().unwrap(), &started.body["created_by"]);
    let done = until(server, id, "completed").await;
    assert_eq!(done["result"], json!({ "input": { "n": 1.5, "text": "a\u{2028}ü" }, "who": actor }));
    let created = events(server, "event_type=job.created", 1).await;
    assert_eq!((&created[0]["actor_did"], &created[0]["subject"]), (actor, &json!("sum")));
    assert_eq!(created[0]["detail"], json!({ "job_id": id }));

    // Without an input it is an empty object. The job has no session of the operator.
    let started = start(json!({ "type": "act" })).await;
    assert_eq!(started.body["input"], json!({}));
    let done = until(server, started.body["id"].as_str().unwrap(), "completed").await;
    assert_eq!(done["result"], false);

    let large = json!({ "type": "sum", "input": "x".repeat(70_000) });
    for (body, status, message) in [
        (
            json!({ "type": "missing" }),
            404,
            "no script is bound to job.run:missing; the types with a script are act, sum",
        ),
        (json!({ "type": "Not A Type" }), 400, "is not a job type"),
        (json!({ "type": "system/purge-events" }), 400, "is not a job type"),
        (json!({ "type": "a\0b" }), 400, "NUL"),
        (json!({ "input": {} }), 400, "type"),
        (large, 400, "the input is larger than 65536 bytes"),
    ] {
        let refused = start(body).await;
        assert_eq!(refused.status, status, "{}", refused.text);
        assert!(refused.body["error"].as_str().unwrap().contains(message), "{}", refused.text);
    }

    // It needs a permission of its own.
    let key = server.create_key(&["--did", ALICE, "--permissions", "jobs:read,jobs:manage,scripts:manage"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    let body = Some(json!({ "type": "sum" }).to_string());
    assert_eq!(server.request(Method::POST, "/admin/jobs", &headers, body).await.status, 403);
}

async fn a_job_acts_only_with_a_session_that_its_creator_proved(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let caller = prepare(&world).await;
    let pds = pds(&world, &[CALLER]).await;
    let app = App::confidential(server, "app").await;
    let device = app.device(server, &pds, CALLER, json!({})).await;
    server.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
    let source = "function handle() return { status = xrpc.procedure('com.example.put', { text = 'x' }).status, \
        more = job.input.stop or (pcall(jobs.create, 'write', { stop = true }, { auth = true })) } end";
    store(server, "job.run:write", source).await;
    let path = |query: &str| format!("/xrpc/{START}?{query}");
    for (query, result) in [
        ("type=write&auth=1", json!({ "status": 200, "more": true })),
        // Without `auth` the job has no session, although the caller has one, and can't create a job that has one.
        ("type=write", json!({ "status": 401, "more": false })),
    ] {
        let made = device.request(server, Method::GET, &path(query), None).await;
        let done = until(server, made.body.as_str().unwrap(), "completed").await;
        assert_eq!(done["result"], result, "{query}");
    }
    // The same user with a service token and a client key has no session either.
    let token = format!("Bearer {}", caller.token(&server.did(), json!({ "lxm": START })));
    let named = [("x-client-key", &*app.key), ("authorization", &*token)];
    let refused = server.request(Method::GET, &path("type=write&auth=1"), &named, None).await;
    assert_eq!(refused.status, 500, "{}", refused.text);
    let token = format!("Bearer {}", caller.token(&server.did(), json!({ "lxm": START })));
    let named = [("x-client-key", &*app.key), ("authorization", &*token)];
    let made = server.request(Method::GET, &path("type=write"), &named, None).await;
    let done = until(server, made.body.as_str().unwrap(), "completed").await;
    assert_eq!(done["result"], json!({ "status": 401, "more": false }));
}

async fn a_job_is_paused_resumed_and_cancelled(world: World) {
    let caller = prepare(&world).await;
    let server = &world.server;
    store(server, "job.run:waiting", WAITING).await;
    let id = create(&world, &caller, "type=waiting").await;
    until(server, &id, "running").await;
    assert_eq!(control(server, &id, "resume").await.0, 409);
    assert_eq!(control(server, &id, "pause").await, (200, json!({ "status": "pausing" })));
    let paused = until(server, &id, "paused").await;
    assert_eq!((&paused["result"], &paused["completed_at"]), (&Value::Null, &Value::Null));
    let (status, refused) = control(server, &id, "pause").await;
    assert!(status == 409 && refused["error"].as_str().unwrap().contains("paused"), "{refused}");
    assert_eq!(control(server, &id, "resume").await, (200, json!({ "status": "pending" })));
    until(server, &id, "running").await;
    assert_eq!(control(server, &id, "cancel").await, (200, json!({ "status": "cancelling" })));
    let cancelled = until(server, &id, "cancelled").await;
    assert!(cancelled["completed_at"].is_string() && cancelled["result"].is_null(), "{cancelled}");
    assert_eq!(control(server, &id, "cancel").await.0, 409);
    assert_eq!(control(server, "nonsense", "cancel").await.0, 404);

    // Jobs that are still queued are cancelled at once.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(create(&world, &caller, "type=waiting").await);
    }
    until(server, &ids[0], "running").await;
    until(server, &ids[1], "running").await;
    assert_eq!(job(server, &ids[2]).await["status"], "pending", "a creator has two of the four workers");
    assert_eq!(control(server, &ids[2], "cancel").await, (200, json!({ "status": "cancelled" })));
    let page = server.admin(Method::GET, "/admin/jobs?status=running&limit=1", None).await;
    assert_eq!(page.body["jobs"][0]["id"], ids[1].as_str());
    let cursor = page.body["cursor"].as_str().unwrap();
    let page = server.admin(Method::GET, &format!("/admin/jobs?status=running&cursor={cursor}"), None).await;
    assert_eq!(
        (page.body["jobs"][0]["id"].as_str(), &page.body["cursor"]),
        (Some(ids[0].as_str()), &Value::Null)
    );
    for id in &ids[..2] {
        control(server, id, "cancel").await;
        until(server, id, "cancelled").await;
    }
}

async fn a_job_that_ignores_cancellation_is_cancelled_within_a_second(world: World) {
    let caller = prepare(&world).await;
    let server = &world.server;
    // Its script loops for ever, uses most of its instructions between calls of the host, and catches every error.
    store(server, "job.run:stubborn", "function handle() \
        job.progress({ at = 1 }) \
        while true do pcall(db.count, 'com.example.note') pcall(function() for i = 1, 900000 do end end) end end").await;
    store(server, "job.run:asleep", "function handle() while true do pcall(job.wait, 3600) end end").await;
    for kind in ["stubborn", "asleep"] {
        let id = create(&world, &caller, &format!("type={kind}")).await;
        until(server, &id, "running").await;
        assert_eq!(control(server, &id, "cancel").await, (200, json!({ "status": "cancelling" })));
        let cancelled = until(server, &id, "cancelled").await;
        assert!(cancelled["result"].is_null() && cancelled["error"].is_null(), "{cancelled}");
    }
}

async fn one_creator_never_uses_all_workers(world: World) {
    let caller = prepare(&world).await;
    let server = &world.server;
    store(server, "job.run:waiting", WAITING).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(create(&world, &caller, "type=waiting").await);
    }
    until(server, &ids[1], "running").await;
    // A caller without a client is another tenant, and its job runs although eight came before.
    let other = world.plc.person("did:plc:othrothrothrothrothrothr", Algorithm::Es256k);
    let audience = format!("did:web:127.0.0.1%3A{}", server.address.port());
    let token = format!("Bearer {}", other.token(&audience, json!({ "lxm": START })));
    let path = format!("/xrpc/{START}?type=quick");
    store(server, "job.run:quick", "function handle() return 1 end").await;
    let made = server.request(Method::GET, &path, &[("authorization", &token)], None).await;
    assert_eq!(made.status, 200, "{}", made.text);
    until(server, made.body.as_str().unwrap(), "completed").await;
    let page = server.admin(Method::GET, "/admin/jobs?status=running", None).await;
    let running: Vec<_> =
        page.body["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(running, [&ids[1], &ids[0]], "half of the four workers");
    for id in &ids {
        control(server, id, "cancel").await;
    }
    until(server, &ids[0], "cancelled").await;
    until(server, &ids[1], "cancelled").await;
}

async fn a_running_job_restarts_after_a_restart_of_the_server(mut world: World) {
    let caller = prepare(&world).await;
    store(&world.server, "job.run:waiting", WAITING).await;
    store(&world.server, "job.run:deaf", "function handle() job.wait(3600) return 1 end").await;
    let id = create(&world, &caller, "type=waiting").await;
    let deaf = create(&world, &caller, "type=deaf").await;
    until(&world.server, &id, "running").await;
    until(&world.server, &deaf, "running").await;
    assert_eq!(world.server.stop(), Some(0));
    world.server.start_again().await;
    until(&world.server, &id, "running").await;
    until(&world.server, &deaf, "running").await;
    for id in [&id, &deaf] {
        control(&world.server, id, "cancel").await;
        until(&world.server, id, "cancelled").await;
    }
}

async fn the_instruction_limit_of_a_job_applies_between_two_calls(world: World) {
    let caller = prepare(&world).await;
    store(
        &world.server,
        "job.run:long",
        "function handle() \
        for i = 1, 10 do for j = 1, 400000 do end db.backend() end return 'all of it' end",
    )
    .await;
    store(&world.server, "job.run:endless", "function handle() while true do end end").await;
    let id = create(&world, &caller, "type=long").await;
    assert_eq!(until(&world.server, &id, "completed").await["result"], "all of it");
    let id = create(&world, &caller, "type=endless").await;
    assert!(
        until(&world.server, &id, "failed").await["error"].as_str().unwrap().contains("1000000 instructions")
    );
}

async fn creating_an_invalid_job_is_an_error_in_the_script(world: World) {
    let caller = prepare(&world).await;
    let server = &world.server;
    for (body, message) in [
        ("jobs.create('Not A Type', {})", "is not a job type"),
        ("jobs.create('missing', {})", "no script is bound to job.run:missing"),
        ("jobs.create(7, {})", "string expected"),
        ("jobs.create('there', {}, 5)", "table expected"),
        ("jobs.create('there', { x = ('x'):rep(100000) })", "the input is larger"),
        ("jobs.create('there', print)", "function"),
    ] {
        store(server, "job.run:there", "function handle() end").await;
        server.bind(START, &format!("function handle() local ok, e = pcall(function() return {body} end) return tostring(e) end")).await;
        let answer = call(&world, &caller, "").await;
        assert!(answer.body.as_str().unwrap_or_default().contains(message), "{body}: {}", answer.text);
    }
    // Without a caller no job can be created, and `job` exists only in jobs.
    server.bind(START, "function handle() local ok, e = pcall(jobs.create, 'there', {}) return { e.code, job == nil } end").await;
    assert_eq!(server.xrpc(START).await.body, json!(["forbidden", true]));
    // The number of queued jobs is limited.
    store(server, "job.run:there", "function handle() job.wait(3600) end").await;
    server.bind(START, "function handle() local n = 0 for i = 1, 120 do \
        local ok, e = pcall(jobs.create, 'there', {}) if ok then n = n + 1 elseif e.code ~= 'limit' then error(e) end \
        end return n end").await;
    let made = call(&world, &caller, "").await;
    assert!((100..=102).contains(&made.body.as_i64().unwrap_or_default()), "{}", made.text);
}

async fn v3_scripts_read_jobs(world: World) {
    const READ: &str = "com.example.readJobs";
    let (server, caller) = (&world.server, prepare(&world).await);
    store(server, "job.run:sum", "function handle() job.progress({ n = 1 }) return { sum = 3 } end").await;
    store(server, "job.run:fail", "function handle() error('no') end").await;
    server.upload(query_lexicon(READ), None).await;
    let source = "local jobs = require('happyview.jobs')
        function handle(input, ctx)
            return { own = jobs.get(input.id), any = jobs.get_any(input.id), none = jobs.get_any('x') == nil,
                failed = jobs.list_any { status = { 'failed' } }, sums = jobs.list_any { job_type = 'sum' }, all = #jobs.list_any(),
                bad = select(2, pcall(jobs.list_any, { status = { 'asleep' } })).message }
        end";
    server.bind(READ, source).await;
    let id = create(&world, &caller, "type=sum").await;
    until(server, &id, "completed").await;
    let failed = create(&world, &caller, "type=fail").await;
    until(server, &failed, "failed").await;
    let audience = format!("did:web:127.0.0.1%3A{}", server.address.port());
    let read = async |person: &Person| {
        let token = format!("Bearer {}", person.token(&audience, json!({ "lxm": READ })));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
        server.request(Method::GET, &format!("/xrpc/{READ}?id={id}"), &headers, None).await
    };
    let own = read(&caller).await;
    assert_eq!(own.status, 200, "{}", own.text);
    let job = &own.body["own"];
    assert_eq!(
        (&job["id"], &job["job_type"], &job["status"]),
        (&json!(id), &json!("sum"), &json!("completed"))
    );
    assert_eq!(
        (&job["result"], &job["progress"], &job["created_by"]),
        (&json!({ "sum": 3 }), &json!({ "n": 1 }), &json!(CALLER))
    );
    assert!(job["started_at"].is_string() && job.get("error").is_none(), "{job}");
    assert_eq!((&own.body["any"], &own.body["none"], &own.body["all"]), (job, &json!(true), &json!(2)));
    assert_eq!(
        (&own.body["failed"][0]["id"], own.body["failed"].as_array().unwrap().len()),
        (&json!(failed), 1)
    );
    assert_eq!((&own.body["sums"][0]["id"], own.body["sums"].as_array().unwrap().len()), (&json!(id), 1));
    assert!(own.body["bad"].as_str().unwrap().contains("\"asleep\" is no status"), "{}", own.text);
    let other = read(&world.plc.person(ALICE, Algorithm::Es256k)).await;
    assert_eq!((other.body.get("own"), &other.body["any"]["id"]), (None, &json!(id)), "{}", other.text);
}
