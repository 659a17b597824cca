//! Tests of recorded runs: they are equal when they are replayed, differences are found, and no secret is in them.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::json;
use tokio::sync::mpsc::Receiver;

use super::{NOW, Stage, TRIGGER};
use crate::scripts::recording::{DifferenceKind, RecordedRun, RunRecorder, UnmaskedRun, mask};
use crate::scripts::{ChosenRecording, Invocation, OutboundHttp, Replayed, Replayer, Variables};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::trigger::Trigger;
use belvedere_standins::recorder::recorder;
use belvedere_web::net::testing::loopback;

impl Stage {
    /// Records every run of the script of the tests.
    async fn recording(mut self) -> (Self, Receiver<UnmaskedRun>) {
        let (recorder, receiver) = RunRecorder::new();
        let until = Timestamp(NOW.0 + 1);
        let recording = ChosenRecording { percent: 100, until, started_at: NOW };
        let chosen = async || Ok::<_, ()>(vec![(TRIGGER.to_owned(), recording)]);
        recorder.reload(chosen).await.unwrap();
        self.services = self.services.with_recorder(Arc::new(recorder));
        (self, receiver)
    }

    /// The recorded run of a script, masked, encoded and read again.
    async fn record(&self, receiver: &mut Receiver<UnmaskedRun>, source: &str, input: &str) -> RecordedRun {
        let params = [("text".to_owned(), input.to_owned())];
        let invocation = Invocation { params: Some(&params), ..Invocation::default() };
        // A failure is a result too.
        let _ = self.run_with(source, invocation).await;
        let unmasked = receiver.try_recv().expect("the run is recorded");
        let bytes = mask(unmasked, &self.services.variables).expect("it is kept").encode().unwrap();
        RecordedRun::decode(&bytes).unwrap()
    }

    /// The replay of a run; `None` for one that can't be read.
    async fn try_replay(&self, source: &str, run: RecordedRun, with_values: bool) -> Option<Replayed> {
        let script = self.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
        let replayer = Replayer::new(Arc::default(), &self.services.variables, with_values);
        self.engine.replay(&script, Arc::new(run), &replayer).await.unwrap()
    }

    async fn replay(&self, source: &str, run: RecordedRun) -> Replayed {
        self.try_replay(source, run, true).await.expect("the run can be read")
    }
}

const SCRIPT: &str = "function handle()
  local page = db.query({ collection = 'com.example.note', limit = 5 })
  local texts = {}
  for i, note in ipairs(page.records) do texts[i] = note.text .. math.random(1, 1000000) end
  local raw = db.raw('SELECT $1', { params.text, env.KEY, 'https://x.example/?key=' .. env.KEY })
  log('seen', params.text)
  if params.text == 'fail' then error('no ' .. params.text) end
  local ok, fault = pcall(db.query, { collection = 'com.example.down' })
  return { texts = toarray(texts), now = now(), key = TID(), ok = ok, fault = tostring(fault), raw = raw, n = db.count({ collection = 'com.example.note' }) }
end";

#[tokio::test]
async fn an_identical_body_gives_identical_results() {
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_variables(Variables::new([("KEY", "a \"secret\"\nvalue/é")]));
    let (stage, mut receiver) = stage.recording().await;
    stage.put(&[
        ("at://did:plc:a/com.example.note/1", r#"{"text":"one"}"#),
        ("at://did:plc:a/com.example.note/2", r#"{"text":"\u00e9 two"}"#),
    ]);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let texts = prop_oneof![Just("fail".to_owned()), ".{0,20}"];
    for _ in 0..64 {
        let text = texts.new_tree(&mut runner).unwrap().current();
        let run = stage.record(&mut receiver, SCRIPT, &text).await;
        assert!(run.instructions.is_some_and(|n| n > 0));
        for with_values in [true, false] {
            let replayed = stage.try_replay(SCRIPT, run.clone(), with_values).await.unwrap();
            assert_eq!(replayed.differences, [], "{text:?}");
            assert_eq!(replayed.recorded_instructions, replayed.instructions, "{text:?}");
        }
    }
    assert!(receiver.try_recv().is_err(), "replays are not recorded");
}

const PARALLEL: &str = "function handle()
  local order = {}
  local function note(what) order[#order + 1] = what .. math.random(1, 1000) end
  local ok, failure = pcall(function()
    return { parallel(
      function() local n = db.count('com.example.note') note('count') return n .. now() end,
      function() note(TID()) db.raw('DELETE FROM mine') local row = db.get('at://did:plc:a/com.example.note/1') note(row.text) end,
      function() if params.text == 'fail' then error('no') end pcall(db.query, { collection = 'com.example.down' }) note('down') end,
      function() local a, b = parallel(function() return db.raw('SELECT $1', { params.text })[1] end, now) note(a) return b end) }
  end)
  if params.text == 'endless' then parallel(function() db.count('com.example.note') end, function() while true do end end) end
  return { order, ok, ok and failure or tostring(failure) }
end";

#[tokio::test]
async fn calls_at_the_same_time_are_replayed_as_they_were() {
    let (stage, mut receiver) = Stage::set().await.recording().await;
    stage.put(&[("at://did:plc:a/com.example.note/1", r#"{"text":"one"}"#)]);
    for text in ["x", "fail", "endless"] {
        let run = stage.record(&mut receiver, PARALLEL, text).await;
        let calls: Vec<&str> = run.calls.iter().map(|call| call.name.as_str()).collect();
        let expected =
            ["clock.tid", "db.raw", "clock.now", "db.count", "db.query", "db.raw", "clock.now", "db.get"];
        let expected: Vec<_> =
            expected.into_iter().filter(|name| text != "fail" || *name != "db.query").collect();
        assert_eq!(calls, expected, "{text}");
        let replayed = stage.replay(PARALLEL, run).await;
        assert_eq!(replayed.differences, [], "{text}");
        assert_eq!(replayed.recorded_instructions, replayed.instructions, "{text}");
    }
    // A body that makes the same calls in turn asks for nothing else.
    let run = stage.record(&mut receiver, "function handle() return { parallel(function() return db.count('a.b.c') end, function() return db.get('at://did:plc:a/com.example.note/1').text end) } end", "x").await;
    let in_turn = "function handle() return { db.count('a.b.c'), db.get('at://did:plc:a/com.example.note/1').text } end";
    assert_eq!(stage.replay(in_turn, run).await.differences, []);
}

#[tokio::test]
async fn differences_in_answers_errors_and_calls_are_found() {
    let (stage, mut receiver) = Stage::set().await.recording().await;
    let body = "function handle() db.count({ collection = 'com.example.note' }) return { n = 1 } end";
    let run = stage.record(&mut receiver, body, "x").await;
    let kinds = async |source: &str| -> Vec<(DifferenceKind, String)> {
        let differences = stage.replay(source, run.clone()).await.differences;
        differences.into_iter().map(|difference| (difference.kind, difference.place)).collect()
    };
    let of = |kind, call: &str| (kind, call.to_owned());
    assert_eq!(kinds(body).await, []);
    let other = "function handle() db.count({ collection = 'com.example.note' }) return { n = 2 } end";
    assert_eq!(kinds(other).await, [of(DifferenceKind::Answer, "n")]);
    let failing = "function handle() db.count({ collection = 'com.example.note' }) error('x') end";
    assert_eq!(kinds(failing).await, [of(DifferenceKind::Error, "xrpc.query:com.example.get:#: x")]);
    let asking = "function handle() db.count({ collection = 'com.example.note' }) pcall(db.get, 'at://did:plc:a/com.example.note/1') return { n = 1 } end";
    assert_eq!(kinds(asking).await, [of(DifferenceKind::Asked, "db.get")]);
    assert_eq!(
        kinds("function handle() return { n = 1 } end").await,
        [of(DifferenceKind::NotAsked, "db.count")]
    );
    let endless = "function handle() while true do pcall(db.count, { collection = 'a.b.c' }) end end";
    assert!(kinds(endless).await.len() <= 22, "the differences of a run are bounded");
}

#[tokio::test]
async fn no_secret_of_a_run_is_recorded() {
    const MARK: &str = "m4rk3r";
    let (address, _) = recorder(|_| {
        let body = format!("{{\"accessJwt\":\"{MARK}-answer\",\"name\":\"plain\"}}");
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nset-cookie: s={MARK}-cookie\r\ncontent-length: {length}\r\n\r\n{body}")
    })
    .await;
    let mut stage = Stage::set().await;
    stage.services = stage.services.with_web(OutboundHttp::new(loopback(), 8));
    stage.services = stage.services.with_variables(Variables::new([("KEY", "m4rk3r-variable")]));
    let (stage, mut receiver) = stage.recording().await;
    let source = format!(
        "function handle()
           local headers = {{ Authorization = 'Bearer {MARK}-bearer', Cookie = 'c={MARK}-sent', ['X-Mine'] = env.KEY }}
           local answer = http.get('http://{address}/?api_key={MARK}-parameter&key=' .. env.KEY, {{ headers = headers }})
           log(answer.body)
           return {{ body = answer.body, key = env.KEY, cookie = answer.headers['set-cookie'], token = '{MARK}-token' }}
         end"
    );
    let run = stage.record(&mut receiver, &source, "x").await;
    let stored = String::from_utf8_lossy(&run.encode().unwrap()).into_owned();
    assert!(!stored.contains(MARK), "{stored}");
    assert!(stored.contains("plain") && stored.contains("KEYKEY-KEYKEYKE"), "{stored}");
    let replayed = stage.replay(&source, run).await;
    assert_eq!(replayed.differences, [], "the texts in place of secrets are the same in both");
}

#[tokio::test]
async fn hostile_recordings_are_bounded() {
    let (stage, mut receiver) = Stage::set().await.recording().await;
    let body = "function handle() return { rows = db.query({ collection = 'com.example.note' }).records, now = now() } end";
    let mut run = stage.record(&mut receiver, body, "x").await;
    for answer in [vec![], vec![0xff; 100], vec![0, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
        for call in &mut run.calls {
            call.answer.clone_from(&answer);
        }
        assert_eq!(stage.try_replay(body, run.clone(), true).await, None, "{answer:?}");
    }
    run.calls.clear();
    run.globals = b"not JSON".to_vec();
    let replayed = stage.try_replay(body, run.clone(), true).await;
    assert!(replayed.is_none_or(|replayed| !replayed.differences.is_empty()));
    run.env_at = u32::MAX;
    assert_eq!(stage.try_replay(body, run.clone(), true).await, None);
    run.env_at = 0;
    run.globals = json!({ "params": "x".repeat(400_000) }).to_string().into_bytes();
    stage.try_replay(body, run, true).await;
}
