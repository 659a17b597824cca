//! Tests of the names that nothing defines, which a check finds.

use std::sync::Arc;

use super::{Stage, TRIGGER};
use belvedere_protocol::trigger::Trigger;

/// The unknown names of a source, as `LINE NAME MEANT`.
async fn unknown(stage: &Stage, source: &str) -> Vec<String> {
    let checked = stage.engine.check(Trigger::parse(TRIGGER).unwrap(), source, &Arc::default()).await;
    let names = checked.unwrap_or_else(|failure| panic!("{source}: {failure}")).unknown_names;
    let text = |meant: Option<String>| meant.unwrap_or_else(|| "-".to_owned());
    names.into_iter().map(|found| format!("{} {} {}", found.line, found.name, text(found.meant))).collect()
}

#[tokio::test]
async fn misspelt_names_are_found_at_their_line() {
    let stage = Stage::set().await;
    let source = "local log = log
        function handle()
          -- tostirng in a comment, and in a string:
          log('tostirng')
          local page = db.qurey{ collection = collection }
          for _, row in ipiars(page.records) do
            row.text = string.lenght(row.text) .. redis.get(row.uri)
          end
          return function() return caller_id, jsn.null end
        end";
    assert_eq!(
        unknown(&stage, source).await,
        [
            "5 db.qurey db.query",
            "6 ipiars ipairs",
            "7 string.lenght string.len",
            "7 redis -",
            "9 caller_id caller_did",
            "9 jsn json"
        ]
    );
}

#[tokio::test]
async fn what_is_defined_is_not_reported() {
    let stage = Stage::set().await;
    for source in [
        "function handle() return helper() end function helper() end",
        "function handle() state = state or {} state.count = (state.count or 0) + 1 return state end",
        "options = { a = 1 } function handle() return options.b end",
        "db.mine = 1 function handle() return db.mine end",
        "function handle() return method, collection, caller_did, delegate_did, params, input, space, env.ANY, job end",
        "function handle() return action, uri, did, rkey, record, src, val, neg, cts, exp end",
        "function handle() local db = { other = 1 } return db.other, math.pi, utf8.charpattern, json.null end",
        "function handle(redis) local _ENV = { nothing = 1 } return something end",
        "setmetatable(_G, { __index = function() return 1 end }) function handle() return anything end",
        "function handle() return Record.load, Record('a.b.c', {}), TID(), now(), _VERSION, _G end",
    ] {
        assert_eq!(unknown(&stage, source).await, [""; 0], "{source}");
    }
}

#[tokio::test]
async fn the_list_is_bounded() {
    let stage = Stage::set().await;
    let many = (0..5_000).map(|n| format!("x = a{n}.b ")).collect::<Vec<_>>().concat();
    assert_eq!(unknown(&stage, &format!("function handle() {many} end")).await.len(), 100);
    let deep = format!(
        "function handle() {} return missing {} end",
        "return function() ".repeat(90),
        "end ".repeat(90)
    );
    assert_eq!(unknown(&stage, &deep).await, ["1 missing -"]);
    let long = "n".repeat(39);
    assert_eq!(
        unknown(&stage, &format!("function handle() return {long} end")).await,
        [format!("1 {long} -")]
    );
}
