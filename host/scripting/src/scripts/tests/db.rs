//! Tests of `db.*`, and of how functions report wrong arguments (`lua-runtime.md` §3).

use serde_json::json;

use super::{Stage, TRIGGER};
use belvedere_protocol::atproto::Did;
use belvedere_storage::query::group::{GroupKey, GroupOrder};
use belvedere_storage::query::sort::{SortKeyset, SortValue};
use belvedere_storage::query::{Direction, Filter, Position, Relevance, Sort};

#[tokio::test]
async fn rows_reach_lua_with_their_uri() {
    let stage = Stage::set().await;
    stage.put(&[
        ("at://did:plc:a/com.example.note/1", r#"{"$type":"com.example.note","text":"é","tags":[],"n":1}"#),
        ("at://did:plc:b/com.example.note/2", r#"{"uri":"forged","big":9223372036854775807,"none":null}"#),
    ]);
    let page = stage.handle("return db.query{ collection = 'com.example.note' }").await.unwrap();
    assert_eq!(
        page,
        json!({ "records": [
            {"uri": "at://did:plc:a/com.example.note/1", "$type": "com.example.note", "text": "é", "tags": [], "n": 1},
            {"uri": "at://did:plc:b/com.example.note/2", "big": i64::MAX, "none": null},
        ]})
    );
    assert_eq!(stage.eval("db.get('at://did:plc:b/com.example.note/2').big").await, json!(i64::MAX));
    assert_eq!(stage.eval("db.get('at://did:plc:b/com.example.note/3') == nil").await, json!(true));
    assert_eq!(stage.eval("db.count('com.example.note')").await, json!(2));
    assert_eq!(stage.eval("db.count('com.example.note', 'did:plc:a')").await, json!(1));
    assert_eq!(stage.eval("db.count{ collection = 'com.example.note', did = 'did:plc:a' }").await, json!(1));
    assert_eq!(stage.eval("db.backend()").await, json!("sqlite"));
    stage.put(&[]);
    assert_eq!(stage.eval("db.query{ collection = 'com.example.note' }").await, json!({ "records": [] }));
}

#[tokio::test]
async fn query_arguments_reach_the_index() {
    let stage = Stage::set().await;
    let after =
        Position::Sorted(SortKeyset { value: SortValue::Number("5".into()), then: Vec::new(), id: 7 });
    stage
        .handle(&format!(
            "db.query{{ collection = 'a.b.c', did = 'did:plc:a', limit = '7', cursor = '{}', sort = 'x.y',
                       sortDirection = 'ASC', valid = 'true',
                       filter = {{ combine = 'OR', {{ field = 'n', op = '>', value = 3 }},
                                  {{ {{ field = 's', value = 'x' }} }} }} }}
             db.query{{ collection = 'a.b.c', limit = 5.0, cursor = json.null, valid = false }}
             return db.count{{ collection = 'a.b.c', did = {{ 'did:plc:a', 'did:plc:b' }}, valid = true }}",
            after.cursor()
        ))
        .await
        .unwrap();
    let queries = stage.index.queries.lock().unwrap();
    let filter = Filter::from_json(&json!({"combine": "OR", "children": [
        {"field": "n", "op": ">", "value": 3},
        {"children": [{"field": "s", "value": "x"}]},
    ]}));
    assert_eq!(
        (queries[0].collection.as_str(), queries[0].did.as_ref().map(Did::as_str), queries[0].limit),
        ("a.b.c", Some("did:plc:a"), 7)
    );
    assert_eq!(queries[0].sort, Some(Sort::parse("x.y", Direction::Asc).unwrap()));
    assert_eq!((&queries[0].after, &queries[0].filter), (&Some(after), &filter.ok()));
    assert_eq!((queries[0].valid, queries[1].valid), (Some(true), Some(false)));
    assert_eq!((queries[1].limit, &queries[1].after, &queries[1].sort), (5, &None, &None));
    let dids = queries[2].dids.iter().flatten().map(Did::as_str).collect::<Vec<_>>();
    assert_eq!(
        (dids, &queries[2].did, queries[2].valid),
        (vec!["did:plc:a", "did:plc:b"], &None, Some(true))
    );
    assert!(queries[0].dids.is_none());
}

#[tokio::test]
async fn an_order_may_have_several_keys() {
    let stage = Stage::set().await;
    stage
        .handle(
            "db.query{ collection = 'a.b.c', sort = { '-n', 'name' } }
             db.query{ collection = 'a.b.c', sort = { 'n' } }
             return db.query{ collection = 'a.b.c', sortDirection = 'asc' }",
        )
        .await
        .unwrap();
    let queries = stage.index.queries.lock().unwrap();
    let sorts: Vec<_> = queries.iter().map(|query| query.sort.clone()).collect();
    let several = Sort::parse_keys([("n", Direction::Desc), ("name", Direction::Asc)]).unwrap();
    let one = |key| Sort::parse(key, Direction::Asc).ok();
    assert_eq!(sorts, [several, one("n"), one("indexed_at")]);
}

#[tokio::test]
async fn group_takes_keys_and_an_order() {
    let stage = Stage::set().await;
    let rows = stage
        .handle(
            "return { db.group{ collection = 'a.b.c', by = { 'artist', { field = 'at', bucket = 'month', as = 'of' } },
                                filter = { field = 'n', value = 3 }, did = 'did:plc:a', order = { 'of', '-count' },
                                limit = '10' },
                      db.group{ collection = 'a.b.c', by = 'did', order = 'count' } }",
        )
        .await
        .unwrap();
    assert_eq!(
        rows,
        json!([[{ "artist": 2, "of": 2, "count": 2 }, { "count": 1 }], [{ "did": 2, "count": 2 }, { "count": 1 }]])
    );
    let groups = stage.index.groups.lock().unwrap().clone();
    let by = [GroupKey::parse("artist", None, None), GroupKey::parse("at", Some("month"), Some("of"))];
    assert_eq!(groups[0].by, by.map(Result::unwrap));
    assert_eq!(
        groups[0].order,
        [
            (GroupOrder::Key(1), Direction::Asc),
            (GroupOrder::Count, Direction::Desc),
            (GroupOrder::Key(0), Direction::Asc)
        ]
    );
    assert_eq!((groups[0].limit, groups[1].limit), (10, 50));
    assert!(groups[0].query.filter.is_some() && groups[0].query.did.is_some());
    assert_eq!(groups[1].order[0], (GroupOrder::Count, Direction::Asc));
    for (arguments, message) in [
        ("collection = 'a.b.c'", "db.group: by: table expected, got nil"),
        ("by = 'v'", "db.group: collection is required"),
        ("collection = 'a.b.c', by = {}", "db.group: by takes 1 to 5 keys"),
        ("collection = 'a.b.c', by = { 1 }", "db.group: by 1: field: string expected, got number"),
        ("collection = 'a.b.c', by = { { bucket = 'day' } }", "db.group: by 1: field is required"),
        (
            "collection = 'a.b.c', by = { { field = 'v', bucket = 'year' } }",
            "db.group: invalid bucket \"year\": hour, day, week or month",
        ),
        (
            "collection = 'a.b.c', by = { 'v', 'v' }",
            "db.group: two columns are named \"v\": rename a key with as",
        ),
        (
            "collection = 'a.b.c', by = 'v', order = '-w'",
            "db.group: invalid order \"w\": count, or the name of a key",
        ),
        (
            "collection = 'a.b.c', by = 'v', space = 'at://x'",
            "db.group: it reads public records only; read those of a space with db.query",
        ),
        (
            "collection = 'a.b.c', by = { { field = 'v', name = 'x' } }",
            "db.group: by 1: unknown option \"name\"; the options are as, bucket, field",
        ),
    ] {
        let failure = stage.handle(&format!("return db.group{{ {arguments} }}")).await.unwrap_err();
        assert!(failure.to_string().contains(message), "{failure}");
    }
}

#[tokio::test]
async fn a_search_has_fields_and_pages() {
    let stage = Stage::set().await;
    let found = stage
        .handle(
            "local first = db.search{ collection = 'a.b.c', fields = { 'title', 'text' }, query = 'x', limit = 3 }
             local rest = db.search{ collection = 'a.b.c', field = 'title', query = 'x', limit = 3, cursor = first.cursor }
             return { records = first.records, more = first.cursor ~= nil, rest = rest.cursor == nil }",
        )
        .await
        .unwrap();
    assert_eq!(found, json!({ "records": [], "more": true, "rest": true }));
    let searches = stage.index.searches.lock().unwrap();
    assert_eq!([searches[0].fields.len(), searches[1].fields.len()], [2, 1]);
    assert_eq!(searches[1].after, Some(Relevance { rank: 0, key: "x".into(), id: 1 }));
}

#[tokio::test]
async fn sql_has_pages() {
    let stage = Stage::set().await;
    let pages = stage
        .handle(
            "local first = db.page('SELECT 1', { 'x', json.null }, { order = { '-n', 'uri' }, limit = '3' })
             local second = db.page('SELECT 1', nil, { order = 'n', cursor = db.page('', {}, { order = 'n' }).cursor })
             return { rows = first.rows, more = first.cursor ~= nil, rest = second.cursor == nil }",
        )
        .await
        .unwrap();
    assert_eq!(pages, json!({ "rows": ["x", null], "more": true, "rest": true }));
    let pages = stage.index.sql_pages.lock().unwrap().clone();
    let order = [("n".to_owned(), Direction::Desc), ("uri".to_owned(), Direction::Asc)];
    assert_eq!((&pages[0].order[..], pages[0].limit, &pages[0].after), (&order[..], 3, &None));
    assert_eq!(pages[2].after, Some(vec![SortValue::Number("1".into())]));
    for (arguments, message) in [
        ("", "db.page: sql is required"),
        ("'x'", "db.page: table expected, got nil"),
        ("'x', {}, {}", "db.page: order: table expected, got nil"),
        ("'x', {}, { order = {} }", "db.page: order takes 1 to 4 names of columns"),
        (
            "'x', {}, { order = 'a b' }",
            "db.page: invalid column \"a b\" in order: a name has letters, digits and _",
        ),
        ("'x', {}, { order = 'a', cursor = 'x' }", "db.page: malformed cursor"),
        ("'x', 5, { order = 'a' }", "db.page: params: table expected, got number"),
        (
            "'x', {}, { order = 'a', offset = 5 }",
            "db.page: unknown option \"offset\"; the options are cursor, limit, order",
        ),
    ] {
        let failure = stage.handle(&format!("return db.page({arguments})")).await.unwrap_err();
        assert!(failure.to_string().contains(message), "{failure}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_errors_of_the_scripts_line() {
    let stage = Stage::set().await;
    for (expression, message) in [
        ("db.query()", "db.query: table expected, got nil"),
        ("db.query{}", "db.query: collection is required"),
        ("db.query{ collection = 5 }", "db.query: collection: string expected, got number"),
        ("db.query{ collection = 'a.b.c', limit = 'x' }", "db.query: limit: integer expected"),
        ("db.query{ collection = 'a.b.c', limit = 1.5 }", "db.query: limit: integer expected"),
        (
            "db.query{ collection = 'a.b.c', sortDirection = 'up' }",
            "db.query: sortDirection must be 'asc' or 'desc'",
        ),
        ("db.query{ collection = 'a.b.c', filter = 1 }", "db.query: filter: table expected, got number"),
        (
            "db.query{ collection = 'a.b.c', limt = 5 }",
            "db.query: unknown option \"limt\"; did you mean \"limit\"?",
        ),
        (
            "db.query{ collection = 'a.b.c', sort_direction = 'asc' }",
            "db.query: unknown option \"sort_direction\"; did you mean \"sortDirection\"?",
        ),
        (
            "db.query{ collection = 'a.b.c', offset = 5 }",
            "db.query: unknown option \"offset\"; the options are collection, cursor, did, filter, limit, sort, \
             sortDirection, space, valid",
        ),
        (
            "db.query{ 'a.b.c' }",
            "db.query: unknown option 1; the options are collection, cursor, did, filter, limit, sort, sortDirection, \
             space, valid",
        ),
        ("db.query{ collection = 'a.b' }", "db.query: collection \"a.b\" is not an NSID"),
        ("db.query{ collection = 'a.b.c', did = 'x' }", "db.query: did \"x\" is neither a DID nor a handle"),
        (
            "db.query{ collection = 'a.b.c', did = { 'did:plc:a', 'x' } }",
            "db.query: did 2 \"x\" is not a DID",
        ),
        ("db.query{ collection = 'a.b.c', did = { 1 } }", "db.query: did 1: string expected, got number"),
        (
            "(function() local many = {} for i = 1, 10001 do many[i] = 'did:plc:a' end \
             return db.count{ collection = 'a.b.c', did = many } end)()",
            "db.count: did: at most 10000 accounts",
        ),
        ("db.query{ collection = 'a.b.c', sort = '$x' }", "db.query: invalid sort field \"$x\""),
        (
            "db.query{ collection = 'a.b.c', sort = { 'a', 'b', 'c', 'd', 'e' } }",
            "db.query: sort has too many keys (at most 4)",
        ),
        ("db.query{ collection = 'a.b.c', sort = { '-a', '-' } }", "db.query: invalid sort field \"\""),
        ("db.query{ collection = 'a.b.c', sort = { 1 } }", "db.query: sort 1: string expected, got number"),
        ("db.query{ collection = 'a.b.c', sort = {} }", "db.query: sort: a list needs a key"),
        (
            "db.query{ collection = 'a.b.c', sort = { 'a' }, sortDirection = 'asc' }",
            "db.query: sortDirection is for one key; in a list of keys \"-name\" descends",
        ),
        ("db.query{ collection = 'a.b.c', cursor = 'x' }", "db.query: malformed cursor"),
        ("db.query{ collection = 'a.b.c', valid = 'yes' }", "db.query: valid: true or false expected"),
        (
            "db.query{ collection = 'a.b.c', filter = { { field = 'n', opp = '<', value = 1 } } }",
            "db.query: filter: unknown option \"opp\"; did you mean \"op\"?",
        ),
        (
            "db.query{ collection = 'a.b.c', filter = { feild = 'n', value = 1 } }",
            "db.query: filter: unknown option \"feild\"; did you mean \"field\"?",
        ),
        (
            "db.search{ collection = 'a.b.c', field = 'x', text = 'y' }",
            "db.search: unknown option \"text\"; the options are collection, cursor, field, fields, limit, query",
        ),
        (
            "db.backlinks{ collection = 'a.b.c', url = 'at://x' }",
            "db.backlinks: unknown option \"url\"; did you mean \"uri\"?",
        ),
        (
            "db.backlinks{ collection = 'a.b.c', [('x'):rep(1000)] = 1 }",
            "db.backlinks: unknown option \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…\"; the options are collection, \
             cursor, did, limit, path, target, uri, uris_only",
        ),
        ("db.query{ collection = 'a\\xff' }", "db.query: args.collection: not valid UTF-8"),
        ("db.query{ collection = 'com.example.down' }", "db.query: database unavailable"),
        ("db.get()", "db.get: uri is required"),
        (
            "db.get('x')",
            "db.get: not the AT URI of a record (at://<did>/<collection>/<rkey>): it does not begin with at://",
        ),
        (
            "db.get('at://did:plc:a/space/a.b.c/main')",
            "db.get: not the address of a record in a space \
             (at://<did>/space/<type>/<skey>/<author>/<collection>/<rkey>): it has 4 segments instead of 7",
        ),
        ("db.get('at://did:plc:a/space/a.b.c/main/did:plc:b/a.b.d/1')", "db.get is not available here"),
        (
            "db.search{ collection = 'a.b.c', field = 'x', fields = { 'y' }, query = 'z' }",
            "db.search: field and fields can't be given together",
        ),
        (
            "db.search{ collection = 'a.b.c', fields = {}, query = 'z' }",
            "db.search: a search has 1 to 4 fields",
        ),
        (
            "db.search{ collection = 'a.b.c', fields = { 1 }, query = 'z' }",
            "db.search: fields 1: string expected, got number",
        ),
        (
            "db.search{ collection = 'a.b.c', field = 'x', query = 'z', cursor = 'x' }",
            "db.search: malformed cursor",
        ),
        (
            "db.search{ collection = 'a.b.c', space = 'x' }",
            "db.search: it reads public records only; read those of a space with db.query",
        ),
        (
            "db.query{ collection = 'a.b.c', space = 'x', filter = {} }",
            "db.query in a space: unknown option \"filter\"; the options are collection, cursor, did, limit, \
             sortDirection, space",
        ),
        ("db.count()", "db.count: collection is required"),
        (
            "db.count{ collection = 'a.b.c', limit = 1 }",
            "db.count: unknown option \"limit\"; the options are collection, did, filter, space, valid",
        ),
        (
            "db.count{ collection = 'a.b.c', filter = { field = 'n', op = 'EXIST' } }",
            "db.count: invalid filter op \"EXIST\"; the ops are =, !=, <, >, <=, >=, LIKE, NOT LIKE, IN, NOT IN, BETWEEN, \
             PREFIX, EXISTS, MISSING",
        ),
        ("log()", "log: string expected, got nil"),
        ("log({})", "log: string expected, got table"),
        ("toarray(1)", "toarray: table expected, got number"),
    ] {
        let error = stage.error_of(expression).await;
        assert_eq!(error, format!("{TRIGGER}:1: {message}"), "{expression}");
    }
}

#[tokio::test]
async fn raw_takes_parameters_and_gives_rows() {
    let stage = Stage::set().await;
    assert_eq!(
        stage.eval("{ db.raw('SELECT 1', { 'a', 1, true, json.null }) }").await,
        json!([["a", 1, true, null], 7])
    );
    assert_eq!(stage.eval("{ db.raw('SELECT 1') }").await, json!([[], 7]));
    for (call, message) in [
        ("db.raw()", "db.raw: sql is required"),
        ("db.raw({})", "db.raw: sql: string expected, got table"),
        ("db.raw('x', 'y')", "db.raw: params: table expected, got string"),
        ("db.raw('x', { print })", "function"),
        ("db.raw('')", "db.raw: no"),
        ("db.backlinks('x')", "db.backlinks: table expected, got string"),
        ("db.backlinks({ collection = 'a.b.c' })", "db.backlinks: target is required"),
        ("db.backlinks({ uri = 'at://x' })", "db.backlinks: collection is required"),
    ] {
        let error = stage.error_of(call).await;
        assert!(error.contains(message), "{call}: {error}");
    }
    let code = stage.handle("local _, e = pcall(db.raw, '') return e.code").await.unwrap();
    assert_eq!(code, json!("forbidden"));
}
