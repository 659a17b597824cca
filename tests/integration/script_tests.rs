//! `belvedere script test`: runs the tests of a folder, without a server.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use belvedere_standins::postgres;
use serde_json::json;
use tempfile::TempDir;

use crate::examples::{documents, examples};
use crate::fixtures::{ALICE, BOB, NOTES};
use crate::support::instance::{query_lexicon, record_lexicon};

/// A folder of scripts, and the data folder of the commands.
struct Folder(TempDir);

/// The end of a command.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("lexicons/com.example.note.json", &record_lexicon(NOTES).to_string());
        folder
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join("scripts").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn test(&self, more: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_belvedere"))
            .args([&["script", "test", "scripts"], more].concat())
            .env_clear()
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: status.code(), out: text(&stdout), err: text(&stderr) }
    }

    /// Runs the tests on both databases, which must all pass.
    async fn passes(&self, count: usize) {
        let url = postgres::create_database().await;
        for database in [&[][..], &["--database", &url]] {
            let ended = self.test(database);
            assert_eq!(ended.code, Some(0), "{ended:#?}");
            assert!(ended.out.contains(&format!(": {count} test")), "{ended:#?}");
        }
    }
}

const LIST: &str = "local shape = require('shape')
function handle()
  local page = db.query({ collection = 'com.example.note', limit = tonumber(params.limit) or 10 })
  local texts = toarray({})
  for i, note in ipairs(page.records) do texts[i] = shape.of(note) end
  if params.fail then error('it broke') end
  return { texts = texts, key = env.KEY, at = now(), caller = caller_did }
end
";

fn with_list() -> Folder {
    let folder = Folder::new();
    folder.write("xrpc.query/com.example.list.lua", LIST);
    folder.write("lib/shape.lua", "return { of = function(note) return note.text end }");
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn given_records_are_what_queries_find() {
    let folder = with_list();
    folder.write(
        "test/list.lua",
        r#"
local shape = require("shape")
before_each(function()
  given.record("at://did:plc:alice/com.example.note/1", { text = "one" })
end)
test("lists", function()
  given.record("at://did:plc:alice/com.example.note/2", { text = "two" })
  given.variable("KEY", "secret")
  given.time("2020-02-03T04:05:06Z")
  local answer = call.query("com.example.list", { limit = 5 }, { as = "did:plc:bob" })
  expect(answer.status).equals(200)
  expect(answer.body).equals({ texts = { "two", "one" }, key = "secret", at = "2020-02-03T04:05:06.000000Z", caller = "did:plc:bob" })
end)
test("sees nothing of another test", function()
  local first = call.query("com.example.list")
  expect(first.body.texts).equals({ "one" })
  expect(first.body.key).equals(nil)
  expect(call.query("com.example.list").instructions).equals(first.instructions)
  expect(first.instructions > 10).equals(true)
  expect(shape.of({ text = "x" })).equals("x")
  expect(db.count("com.example.note")).equals(1)
end)
test("knows failures", function()
  local answer = call.query("com.example.list", { fail = true })
  expect(answer.status).equals(500)
  expect(answer.body).equals({ error = "script execution failed" })
  expect(answer.error).includes("it broke")
  expect(function() given.record("at://did:plc:alice/com.example.note/1", "text") end).fails("given.record")
  expect(function() given.record("nonsense", { text = "x" }) end).fails("nonsense")
  expect(function() call.query("nonsense") end).fails("is not an NSID")
end)
"#,
    );
    folder.passes(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spaces_and_answers_of_plugins_are_given() {
    let folder = Folder::new();
    folder.write(
        "xrpc.query/com.example.group.lua",
        "function handle()
           if not space then error({ status = 404, error = 'NotFound' }) end
           local page = db.query({ collection = 'com.example.note', space = space.space })
           local texts = toarray({})
           for i, note in ipairs(page.records) do texts[i] = plugin.mark_down.render(note.text) end
           return { texts = texts, access = atproto.spaces.get_access(space.space, caller_did) }
         end",
    );
    folder.write(
        "xrpc.procedure/com.example.post.lua",
        "function handle() local note = Record('com.example.note', { text = input.text }) note:set_space(input.space):save() return { uri = note._uri } end",
    );
    folder.write(
        "test/groups.lua",
        r#"
local group = "at://did:plc:alice/space/com.example.group/friends"
before_each(function()
  given.space(group, { members = { ["did:plc:bob"] = "write", ["did:plc:carol"] = "read" } })
end)
local function read(caller)
  return call.query("com.example.group", { space = group }, { as = caller })
end
test("members read, with a plugin", function()
  given.record(group .. "/did:plc:bob/com.example.note/1", { text = "*hi*" })
  given.plugin("mark-down", "render", { args = { "*hi*" }, result = "<em>hi</em>" })
  expect(read("did:plc:carol").body).equals({ texts = { "<em>hi</em>" }, access = "read" })
  expect(read("did:plc:alice").body.access).equals("write")
  expect(read("did:plc:dave").status).equals(404)
  expect(read().status).equals(404)
  expect(seen.plugins()[1]).equals({ plugin = "mark_down", ["function"] = "render", args = { "*hi*" } })
end)
test("members write", function()
  local posted = call.procedure("com.example.post", { text = "new", space = group }, { as = "did:plc:bob" })
  expect(posted.error).equals(nil)
  expect(seen.space(group)).includes({ uri = posted.body.uri, record = { text = "new" } })
  expect(call.procedure("com.example.post", { text = "new", space = group }, { as = "did:plc:carol" }).status).equals(403)
  expect(#seen.space(group)).equals(1)
  expect(seen.writes()).equals({})
end)
test("others read public spaces", function()
  local open = given.space("at://did:plc:alice/space/com.example.group/open", { public = true, creator = "did:plc:erin" })
  given.record(open .. "/did:plc:erin/com.example.note/1", { text = "all" })
  given.plugin("mark-down", "render", { fails = { code = "not-found", message = "no style" } })
  local answer = call.query("com.example.group", { space = open }, { as = "did:plc:dave" })
  expect(answer.error).includes("no style")
  expect(function() plugin.mark_down.render("x") end).fails("no style")
  given.plugin("other", "f", { result = 1 })
  given.plugin("other", "f", { result = 2 })
  expect({ plugin.other.f(), plugin.other.f(), plugin.other.f() }).equals({ 1, 2, 2 })
  expect(function() plugin.none.f() end).fails("installed are mark-down, other")
  expect(function() plugin.other.g() end).fails("it has f")
end)
test("what can't be is refused", function()
  expect(function() given.space("at://did:plc:alice") end).fails("given.space")
  expect(function() given.space(group) end).fails("the space exists")
  expect(function() given.space("at://did:plc:alice/space/com.example.group/x", { members = { ["did:plc:bob"] = "all" } }) end).fails("is no right")
  expect(function() given.record(group .. "/did:plc:carol/com.example.note/1", { text = "x" }) end).fails("given.record")
  expect(function() given.plugin("other", "f", { fails = { code = "nonsense" } }) end).fails("is no code")
  expect(function() seen.space("at://did:plc:bob/space/com.example.group/x") end).fails("no such space")
end)
"#,
    );
    folder.passes(4).await;
    folder.write(
        "test/missing.lua",
        "test('asks for more', function() given.plugin('p', 'f', { args = { 1 }, result = 1 }) pcall(function() plugin.p.f(2) end) end)",
    );
    let ended = folder.test(&["--filter", "asks for more"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.out.contains("add given.plugin"), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_requests_events_labels_and_jobs_are_seen() {
    let folder = Folder::new();
    folder
        .write("setup/tables.lua", "function handle() db.raw('CREATE TABLE script_counted (n INTEGER)') end");
    folder.write(
        "xrpc.procedure/com.example.add.lua",
        "function handle()
           local note = Record('com.example.note', { text = input.text })
           note:save()
           db.raw('INSERT INTO script_counted VALUES (1)')
           log('saved ' .. note._uri)
           local answer = http.post('https://hook.example/x', { body = 'new' })
           jobs.create('mail', { to = input.text })
           return { uri = note._uri, status = answer.status }
         end",
    );
    folder.write("job.run/mail.lua", "function handle() return { sent = job.input.to } end");
    folder.write(
        "record.index/com.example.note.lua",
        "function handle()
           if record and record.text == 'spam' then return nil end
           if record and record.text == 'bad' then error('no') end
           return true
         end",
    );
    folder.write(
        "labeler.apply/_actor.lua",
        "function handle() if val == 'rude' then return nil end return true end",
    );
    folder.write(
        "test/all.lua",
        r#"
test("a procedure writes", function()
  given.http("POST https://hook.example/x", { status = 202, body = { ok = true } })
  local answer = call.procedure("com.example.add", { text = "hi" }, { as = "did:plc:alice" })
  expect(answer.error).equals(nil)
  expect(answer.body.status).equals(202)
  local written = seen.writes()
  expect(#written).equals(1)
  expect(written[1]).includes({ kind = "create", uri = answer.body.uri, record = { text = "hi" } })
  expect(seen.requests()).includes({ method = "POST", url = "https://hook.example/x", body = "new" })
  expect(seen.logs()).includes({ level = "info", message = "saved " .. answer.body.uri })
  expect(db.get(answer.body.uri).text).equals("hi")
  expect(db.raw("SELECT count(*) AS n FROM script_counted")[1].n).equals(1)
  expect(seen.jobs()).includes({ type = "mail", status = "pending", input = { to = "hi" } })
  expect(call.jobs()).equals(1)
  expect(seen.jobs()[1].result).equals({ sent = "hi" })
end)
test("a refusal of the PDS is passed on, and callers need a session", function()
  given.pds("com.atproto.repo.createRecord", { status = 400, body = { error = "InvalidSwap", message = "no" } })
  local answer = call.procedure("com.example.add", { text = "hi" }, { as = "did:plc:alice" })
  expect({ answer.status, answer.body.error }).equals({ 400, "InvalidSwap" })
  local without = call.procedure("com.example.add", { text = "hi" }, { as = "did:plc:alice", session = false })
  expect(without.status).equals(401)
  expect(call.procedure("com.example.add", { text = "hi" }).status).equals(401)
  expect(seen.writes()).equals({})
end)
test("scripts of records decide", function()
  local uri = "at://did:plc:alice/com.example.note/1"
  expect(call.record("create", uri, { text = "fine" })).includes({ outcome = "stored", record = { text = "fine" } })
  expect(db.get(uri).text).equals("fine")
  local skipped = call.record("create", "at://did:plc:alice/com.example.note/2", { text = "spam" })
  expect(skipped.outcome).equals("skipped")
  expect(call.record("update", uri, { text = "bad" }).error).includes("no")
  expect(call.record("delete", uri).outcome).equals("deleted")
  expect(db.get(uri)).equals(nil)
end)
test("scripts of labels decide", function()
  given.account({ did = "did:plc:alice", handle = "alice.example" })
  expect(call.label({ uri = "did:plc:alice", val = "rude" }).outcome).equals("dropped")
  expect(call.label({ uri = "did:plc:alice", val = "kind" }).outcome).equals("stored")
  given.label({ uri = "did:plc:alice", val = "given" })
  local labels = atproto.get_labels("did:plc:alice")
  table.sort(labels, function(a, b) return a.val < b.val end)
  expect({ labels[1].val, labels[2].val, #labels }).equals({ "given", "kind", 2 })
  expect(atproto.resolve_handle("alice.example")).equals("did:plc:alice")
end)
test("jobs run", function()
  expect(call.job("mail", { to = "x" })).includes({ status = "completed", result = { sent = "x" } })
end)
"#,
    );
    folder.passes(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_have_file_and_line_and_end_with_status_1() {
    let folder = with_list();
    folder.write(
        "xrpc.query/com.example.fetch.lua",
        "function handle() pcall(http.get, 'https://a.example/') end",
    );
    folder.write(
        "test/list.lua",
        r#"test("passes", function() end)
test("differs <a&b>", function()
  given.record("at://did:plc:alice/com.example.note/1", { text = "one" })
  expect(call.query("com.example.list").body.texts).equals({ "two" })
end)
test("breaks", function()
  local x = nil
  call.query("com.example.list", { fail = true })
  x.y = 1
end)
test("asks", function()
  call.query("com.example.fetch")
end)
"#,
    );
    let ended = folder.test(&["--junit", "junit.xml"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for expected in [
        "FAIL scripts/test/list.lua:4: differs <a&b>: expected [\"one\"] to equal [\"two\"]\n  value[1] is \"one\", not \"two\"",
        "FAIL scripts/test/list.lua:9: breaks: attempt to index a nil value",
        "  a script failed: scripts/xrpc.query/com.example.list.lua:6: it broke",
        "FAIL scripts/test/list.lua:11: asks: https://a.example/ has no answer in this test: add given.http(",
        "scripts: 1 test passed, 3 failed",
    ] {
        assert!(ended.out.contains(expected), "{expected}\n{}", ended.out);
    }
    let junit = fs::read_to_string(folder.0.path().join("junit.xml")).unwrap();
    for expected in [
        "<testsuites tests=\"4\" failures=\"3\"",
        "name=\"differs &lt;a&amp;b&gt;\" file=\"scripts/test/list.lua\" line=\"4\"",
    ] {
        assert!(junit.contains(expected), "{junit}");
    }
    let ended = folder.test(&["--filter", "passes", "--show-passed"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.out.starts_with("ok   scripts/test/list.lua: passes ("), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coverage_names_the_lines_that_no_test_ran() {
    let folder = with_list();
    folder.write("xrpc.query/com.example.unused.lua", "function handle() end");
    folder.write(
        "test/list.lua",
        r#"
test("lists nothing", function()
  expect(call.query("com.example.list").status).equals(200)
end)
"#,
    );
    let plain = folder.test(&["--show-passed"]);
    let ended = folder.test(&["--coverage=lines.info"]);
    assert_eq!((plain.code, ended.code), (Some(0), Some(0)), "{ended:#?}");
    assert!(!plain.out.contains("coverage"), "{plain:#?}");
    for expected in [
        "scripts/xrpc.query/com.example.unused.lua: not run\n",
        "scripts/lib/shape.lua: all 1 lines\n",
        "scripts/xrpc.query/com.example.list.lua: all 8 lines\n",
        " (100.0 %)\n",
    ] {
        assert!(ended.out.contains(expected), "{expected}: {}", ended.out);
    }
    let lcov = fs::read_to_string(folder.0.path().join("lines.info")).unwrap();
    assert!(lcov.contains("SF:scripts/xrpc.query/com.example.list.lua\nDA:1,"), "{lcov}");
    folder.write("lib/shape.lua", "return {\n  of = function(note)\n    return note.text\n  end,\n}");
    let ended = folder.test(&["--coverage"]);
    assert!(ended.out.contains("scripts/lib/shape.lua: 3 of 4 lines, not 3\n"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_cannot_run_end_with_status_2() {
    let folder = with_list();
    let ended = folder.test(&[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("scripts has no tests: write some"), "{ended:#?}");
    for (source, message) in [
        ("test('a', function(", "scripts/test/bad.lua:1: "),
        ("\nerror('at once')", "scripts/test/bad.lua:2: at once"),
        ("given.time('x')", "are for the functions of test() and before_each()"),
        ("test(1, 2)", "scripts/test/bad.lua:1: test: name: string expected, got number"),
        ("while true do end", "more than 1000000 instructions"),
        ("handle = nil", "the script defines no function handle()"),
        ("for i = 1, 2000 do test('t' .. i, print) end", "more than 1000 tests in one file"),
    ] {
        folder.write("test/bad.lua", source);
        let ended = folder.test(&[]);
        assert_eq!(ended.code, Some(2), "{source}: {ended:#?}");
        assert!(ended.err.contains(message), "{source}: {ended:#?}");
    }
    folder.write("test/bad.lua", "test('a', function() end)");
    folder.write("xrpc.query/com.example.list.lua", "function handle(");
    assert_eq!(folder.test(&[]).code, Some(2));
    folder.write("xrpc.query/com.example.list.lua", "-- returns: {\nfunction handle() end");
    let ended = folder.test(&[]);
    assert!(ended.code == Some(2) && ended.err.contains("com.example.list.lua:1: returns: "), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_tests_are_bounded_and_the_others_run() {
    let folder = with_list();
    folder.write(
        "test/hostile.lua",
        r#"test("loops", function() while true do end end)
test("loops in the host", function() while true do given.random(1) end end)
test("fills memory", function() local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1e6) .. i end end)
test("gives too much", function() for i = 1, 2000 do given.http("https://a.example/" .. i, { body = ("x"):rep(1e5) }) end end)
test("contains itself", function() local a, b = {}, {} a.a = a b.a = b expect(a).equals(b) end)
test("odd texts", function() expect("\0\xff\u{2028}").equals("\0") end)
test("calls a name", function() xrpc.query("com.example.list") end)
test("is fine", function() expect(call.query("com.example.list").status).equals(200) end)
"#,
    );
    let ended = folder.test(&["--junit", "junit.xml"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for expected in [
        "hostile.lua:1: loops: more than 1000000 instructions",
        "hostile.lua:2: loops in the host: too many calls of methods",
        "hostile.lua:3: fills memory: ",
        "a case gives at most 1000 answers",
        "hostile.lua:5: contains itself: expected",
        "hostile.lua:6: odd texts: expected",
        "hostile.lua:7: calls a name: ",
        "scripts: 1 test passed, 7 failed",
    ] {
        assert!(ended.out.contains(expected), "{expected}\n{}", ended.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_million_instructions_of_a_called_script_are_exact() {
    let folder = Folder::new();
    folder.write(
        "xrpc.query/com.example.loop.lua",
        "function handle() for _ = 1, tonumber(params.times) do end return 1 end",
    );
    folder.write(
        "test/loop.lua",
        r#"
test("counts each instruction", function()
  local few = call.query("com.example.loop", { times = 1 })
  local more = call.query("com.example.loop", { times = 1001 })
  expect(more.instructions - few.instructions).equals(1000)
  local left = 1000000 - few.instructions
  local all = call.query("com.example.loop", { times = 1 + left })
  expect({ status = all.status, n = all.instructions }).equals({ status = 200, n = 1000000 })
  local over = call.query("com.example.loop", { times = 2 + left })
  expect(over.status).equals(500)
  expect(over.error).includes("more than 1000000 instructions")
end)
"#,
    );
    folder.passes(1).await;
}

/// The records of the documents' examples, as `examples.rs` makes them, and accounts.
fn setup_of_documents() -> String {
    let notes = [
        (ALICE, "first", json!({ "text": "The first note", "n": 1, "tags": ["red"] })),
        (ALICE, "second", json!({ "text": "The second note", "n": 2, "tags": ["red", "blue"] })),
        (
            BOB,
            "reply",
            json!({ "text": "A reply", "n": 3, "subject": format!("at://{ALICE}/{NOTES}/first") }),
        ),
    ];
    let mut given = format!("given.account({{ did = \"{BOB}\", handle = \"bob.example\" }})\n");
    for (did, rkey, record) in notes {
        writeln!(given, "given.record(\"at://{did}/{NOTES}/{rkey}\", json.decode([==[{record}]==]))")
            .unwrap();
    }
    format!("before_each(function()\n{given}end)\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documents_examples_run_by_their_headers() {
    /// They need what a folder of scripts does not have.
    const OF_SERVERS: [&str; 3] = ["space", "plugin", "profile"];
    let folder = Folder::new();
    let (mut setup, mut with_header) = (setup_of_documents(), 0);
    let mut query = |nsid: &str| {
        folder.write(&format!("lexicons/{nsid}.json"), &query_lexicon(nsid).to_string());
        writeln!(setup, "before_each(function() given.target(\"{nsid}\", \"{NOTES}\") end)").unwrap();
    };
    query("com.example.listNotes");
    for (name, text) in documents() {
        for example in examples(&name, &text) {
            let is_page = name.ends_with("scripting/tests.md");
            if let Some(file) = &example.test_file {
                assert!(is_page);
                // The page's own tests begin with no records.
                let page = Folder::new();
                let script =
                    examples(&name, &text).into_iter().find(|script| script.test_file.is_none()).unwrap();
                page.write(
                    "xrpc.query/com.example.recentNotes.lua",
                    &script.source.replace("-- returns", "-- shows"),
                );
                page.write(&format!("test/{file}"), &example.source);
                page.passes(2).await;
                continue;
            }
            let (kind, subject) = example.trigger.split_once(':').unwrap();
            let is_of_server = OF_SERVERS.iter().any(|word| example.source.contains(word));
            let has_header =
                example.source.contains("-- returns: ") || example.source.contains("-- status: ");
            if example.stored_only || is_of_server || (!matches!(kind, "lib" | "setup") && !has_header) {
                continue;
            }
            with_header += usize::from(has_header);
            let caller = "-- as: did:plc:callercallercallercallerc\n";
            folder.write(&format!("{kind}/{subject}.lua"), &format!("{caller}{}", example.source));
            if kind == "xrpc.query" {
                query(subject);
            }
        }
    }
    assert!(with_header > 10, "{with_header}");
    folder.write("test/setup.lua", &setup);
    let before = Path::new("test/given.lua");
    folder.write(
        &before.display().to_string(),
        "test('the records are there', function() expect(db.count('com.example.note')).equals(3) end)",
    );
    let ended = folder.test(&["--show-passed"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
}

/// The messages of a subscription, as its clients get them.
#[tokio::test]
async fn the_script_of_a_subscription_gets_changes() {
    let folder = Folder::new();
    let watch = "com.example.watch";
    let lexicon = json!({ "lexicon": 1, "id": watch, "defs": {
        "main": { "type": "subscription",
            "parameters": { "type": "params", "properties": { "level": { "type": "integer", "default": 2 } } },
            "message": { "schema": { "type": "union", "refs": ["#mood"] } } },
        "mood": { "type": "object", "required": ["mood"], "properties": {
            "mood": { "type": "string" }, "level": { "type": "integer" }, "seq": { "type": "integer" } } } } });
    folder.write(&format!("lexicons/{watch}.json"), &lexicon.to_string());
    let script = "function handle()
        if event.action == 'delete' then error('gone') end
        return { { ['$type'] = 'mood', mood = event.record.text, level = params.level }, { ['$type'] = 'other' } }
    end";
    folder.write(&format!("xrpc.subscription/{watch}.lua"), script);
    let v3 = "function handle(input, ctx) return { ['$type'] = 'mood', mood = input.rkey, level = ctx.params.level } end";
    folder.write("xrpc.subscription/com.example.watchToo.lua", v3);
    let too = lexicon.to_string().replace(watch, "com.example.watchToo");
    folder.write("lexicons/com.example.watchToo.json", &too);
    let test = "test('messages', function()
        local uri = 'at://did:plc:alice/com.example.note/a'
        local made = call.change('com.example.watch', { action = 'create', uri = uri, record = { text = 'hi' }, seq = 7 })
        expect(made.messages).equals({ { ['$type'] = 'com.example.watch#mood', mood = 'hi', level = 2, seq = 7 } })
        expect(#made.invalid).equals(1)
        local failed = call.change('com.example.watch', { action = 'delete', uri = uri })
        expect(#failed.messages).equals(0)
        expect(failed.error:find('gone') ~= nil).equals(true)
        local too = call.change('com.example.watchToo', { action = 'delete', uri = uri }, { level = 5 })
        expect(too.messages[1].level).equals(5)
        expect(too.messages[1].mood).equals('a')
    end)";
    folder.write("test/watch.lua", test);
    folder.passes(1).await;
}
