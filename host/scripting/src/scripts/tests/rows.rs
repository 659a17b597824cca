//! Tests of records that stay text until a script looks at their fields: nothing but speed may tell them from tables.

use serde_json::json;

use super::Stage;

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
    let records: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(records[1], json!({ "a": { "uri": 1 }, "uri": "at://did:plc:a/a.b.c/2" }));
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
