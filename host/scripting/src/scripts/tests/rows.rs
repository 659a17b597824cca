//! Tests of records that stay text until a script looks at their fields: nothing but speed may tell them from tables.

use serde_json::{Value, json};

use super::{NOW, Stage};
use belvedere_protocol::atproto::record;

const RECORD: &str = r#"{"text":"é\n","n":1.50,"none":null,"list":[1,{"uri":"at://x"}],"reply":{"uri":"at://y","deep":{"a":true}},"__index":{"x":5}}"#;

/// The uses of a record `r` in scripts. Each must do the same with a table that was decoded at once.
const USES: [&str; 37] = [
    "return r",
    "return r.text",
    "return r.n + 1",
    "return r.missing == nil, r[1] == nil, r[true] == nil, r[json.null] == nil",
    "return r.reply.deep.a, r.list[2].uri, #r.list",
    "return r.uri",
    "return rawget(r, 'text'), rawget(r, 'uri')",
    "return #r, rawlen(r)",
    "return next(r) ~= nil, next({}, nil) == nil",
    "local names = {} for name in pairs(r) do names[#names + 1] = name end table.sort(names) return names",
    "local names = {} for name in next, r do names[#names + 1] = name end table.sort(names) return names",
    "local n = 0 for _ in ipairs(r) do n = n + 1 end return n",
    "return getmetatable(r) == nil",
    "return setmetatable(r, { __index = function(_, name) return name end }).absent",
    "return getmetatable(setmetatable(r, { a = 1 })).a, r.text",
    "return setmetatable({}, r).x, setmetatable({}, { __index = r }).text",
    "local _ENV = r local seen = text text = 1 return seen, r",
    "local t = table.move(r, 1, 1, 1, {}) t = table.pack(table.unpack({ r })) return t[1].n",
    "r.text = 'changed' return r",
    "r.added = { 1, 2 } return r",
    "r.text = nil r.uri = nil return r",
    "r.uri = 'other' return r.uri, r",
    "rawset(r, 'text', 2) return r",
    "rawset(r, 'x', 2) return r.x, r.text",
    "r[1] = 'one' return r[1], #r, select(2, pcall(json.encode, r))",
    "return json.encode(r) == json.encode(r), json.decode(json.encode(r))",
    "local t = { r, r } return t[1] == t[2], t",
    "local t = {} t[r] = 1 return t[r], r.text, t[r]",
    "return type(r), tostring(r):match('^table: ') ~= nil",
    "return select(2, pcall(function() r[nil] = 1 end))",
    "return select(2, pcall(function() r[0 / 0] = 1 end))",
    "return select(2, pcall(function() return r + 1 end))",
    "return select(2, pcall(function() return r < r end)), select(2, pcall(function() return r() end))",
    "return toarray(r)",
    "return table.unpack(r, 1, 2)",
    "return select(2, pcall(table.concat, { r }))",
    "local c = coroutine.wrap(function() for name, value in pairs(r) do coroutine.yield(value) end end) \
     local n = 0 while c() ~= nil do n = n + 1 end return n",
];

#[tokio::test]
async fn a_record_that_stays_text_is_a_table() {
    let stage = Stage::set().await;
    stage.put(&[("at://did:plc:a/a.b.c/1", RECORD)]);
    for body in USES {
        let source = format!(
            "local function use(r) return toarray({{ (function() {body} end)() }}) end \
             local function row() return db.query{{ collection = 'a.b.c' }}.records[1] end \
             local opened = row() \
             for _ in pairs(opened) do break end \
             return {{ text = use(row()), table = use(opened), copy = use(json.decode(json.encode(row()))) }}"
        );
        let seen = stage.handle(&source).await.unwrap_or_else(|failure| panic!("{body}: {failure:?}"));
        assert_eq!(seen["text"], seen["table"], "{body}");
        assert_eq!(seen["text"], seen["copy"], "{body}");
    }
}

#[tokio::test]
async fn an_untouched_record_is_returned_as_it_is_stored() {
    let stage = Stage::set().await;
    stage
        .put(&[("at://did:plc:a/a.b.c/1", RECORD), ("at://did:plc:a/a.b.c/2", r#"{"a":{"uri":1},"uri":2}"#)]);
    let text = stage.eval("json.encode(db.query{ collection = 'a.b.c' }.records)").await;
    let first = format!("{},\"uri\":\"at://did:plc:a/a.b.c/1\"}}", &RECORD[..RECORD.len() - 1]);
    let text = text.as_str().unwrap();
    assert!(text.starts_with(&format!("[{first},{{")), "{text}");
    let records: Value = serde_json::from_str(text).unwrap();
    assert_eq!(records[1], json!({ "a": { "uri": 1 }, "uri": "at://did:plc:a/a.b.c/2" }));
}

/// The fields of the address and of the version: of a row that stays text, of one that was opened, and of one that was
/// decoded at once. None of them is among the fields of the record.
#[tokio::test]
async fn a_record_has_the_fields_of_its_address() {
    let stage = Stage::set().await;
    let plain = r#"{"n":1,"u":"_did"}"#;
    stage.put(&[
        ("at://did:plc:a/a.b.c/1", r#"{"n":1}"#),
        ("at://did:plc:a/a.b.c/2", plain),
        ("at://did:plc:b/a.b.c/3", r#"{"uri":1,"n":1}"#),
        ("at://did:plc:b/a.b.c/4", r#"{"_did":"its own","n":1,"escaped":"\n"}"#),
        ("at://did:plc:b/a.b.c/5", r#"{"n":1.5}"#),
    ]);
    let source = "local function read(open) \
                    local seen = toarray({}) \
                    for i, r in ipairs(db.query{ collection = 'a.b.c' }.records) do \
                      local names = toarray({}) \
                      if open then \
                        for name in pairs(r) do names[#names + 1] = name end \
                        r.added, r.more, r.again = 1, 2, 3 \
                        r.added, r.more, r.again = nil, nil, nil \
                        table.sort(names) \
                      end \
                      seen[i] = { r._did, r._rkey, r._cid or 'none', r._indexed_at, json.encode(r), \
                                  r._none == nil, open and names or nil } \
                    end \
                    return seen \
                  end \
                  return { read(false), read(true) }";
    let seen = stage.handle(source).await.unwrap();
    let at = NOW.to_string();
    let cid = |record: &str| record::inspect(record.as_bytes()).unwrap().cid.unwrap().to_string();
    let row = &seen[0][1];
    assert_eq!(*row, json!(["did:plc:a", "2", cid(plain), at, row[4], true]));
    // Reading them does not open a record without such a field.
    assert_eq!(seen[0][0][4], r#"{"n":1,"uri":"at://did:plc:a/a.b.c/1"}"#);
    assert_eq!(seen[0][3][0], "its own");
    assert_eq!((&seen[0][2][1], &seen[0][4][2]), (&json!("3"), &json!("none")));
    let names = [json!(["n", "uri"]), json!(["n", "u", "uri"]), json!(["n", "uri"])];
    for n in 0..5 {
        assert_eq!(seen[0][n].as_array().unwrap()[..4], seen[1][n].as_array().unwrap()[..4], "{n}");
        let decoded = |row: &Value| serde_json::from_str::<Value>(row[4].as_str().unwrap()).unwrap();
        assert_eq!(decoded(&seen[0][n]), decoded(&seen[1][n]), "{n}");
        assert!(names.get(n).is_none_or(|names| seen[1][n][6] == *names), "{n}");
    }
    let set =
        "local r = db.query{ collection = 'a.b.c' }.records[1] r._did = 'x' return { r._did, r._rkey, r }";
    let set = stage.handle(set).await.unwrap();
    assert_eq!((&set[0], &set[1], &set[2]["_did"]), (&json!("x"), &json!("1"), &json!("x")));
}

/// The collector frees the text of a page once all of its records were opened or dropped, and not before.
#[tokio::test]
async fn records_outlive_collections_of_garbage() {
    let stage = Stage::set().await;
    let large = format!("{{\"n\":1,\"x\":\"{}\"}}", "x".repeat(100 << 10));
    stage.put(&[("at://did:plc:a/a.b.c/1", large.as_str()); 10]);
    let source = "local kept = {} \
                  for i = 1, 14 do \
                    local records = db.query{ collection = 'a.b.c' }.records \
                    kept[i] = { records[1], records[2].n, records[3] } \
                    kept[i][1].n = i \
                    for j = 1, 100 do local garbage = { ('y'):rep(10000) } end \
                  end \
                  local sum, same = 0, true \
                  for i = 1, 14 do \
                    sum = sum + kept[i][1].n + kept[i][2] \
                    same = same and #kept[i][3].x == 102400 and kept[i][3].uri == 'at://did:plc:a/a.b.c/1' \
                  end \
                  return { sum, same }";
    assert_eq!(stage.handle(source).await.unwrap(), json!([105 + 14, true]));
}
