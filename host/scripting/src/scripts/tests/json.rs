//! Tests of the JSON codec (`lua-runtime.md` §7).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FailureKind, Invocation, Stage};

#[tokio::test]
async fn writes_what_the_specification_says() {
    let stage = Stage::set().await;
    for (value, text) in [
        ("{}", "{}"),
        ("toarray{}", "[]"),
        ("{1, nil, 3}", "[1,null,3]"),
        ("{nil, 2}", "[null,2]"),
        ("{a = nil}", "{}"),
        ("{a = json.null}", r#"{"a":null}"#),
        ("10/2", "5"),
        ("2^53", "9007199254740992"),
        ("2^53 * 2", "18014398509481984"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("-12.5", "-12.5"),
        ("0.000000001", "0.000000001"),
        ("-0.05", "-0.05"),
        ("123456.789", "123456.789"),
        ("5e-324", "4.94065645841247e-324"),
        ("1/3", "0.3333333333333333"),
        ("1e300", "1e+300"),
        ("math.maxinteger", "9223372036854775807"),
        ("math.mininteger", "-9223372036854775808"),
        (r#""a\"\\\n\r\t\b\f\0\x7f/é😀""#, "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0000\u{7f}/é😀\""),
        ("toarray({1, 2, x = 3})", "[1,2]"),
        ("setmetatable({a = 1}, {__index = {b = 2}})", r#"{"a":1}"#),
    ] {
        assert_eq!(stage.eval(&format!("json.encode({value})")).await, json!(text), "{value}");
    }
}

#[tokio::test]
async fn refuses_what_has_no_json_form() {
    let stage = Stage::set().await;
    for (value, message) in [
        ("0/0", "nan is not a JSON number"),
        ("1/0", "infinity is not a JSON number"),
        ("{1, x = 2}", "mixes an array with named fields"),
        ("{[5] = 1}", "an array has a value at 5 but only 1 in all"),
        ("{[0] = 1}", "neither an array nor an object"),
        ("{[1.5] = 1}", "has a number as a key"),
        ("{[true] = 1}", "has a boolean as a key"),
        ("print", "a function can't be JSON"),
        ("coroutine.create(print)", "a thread can't be JSON"),
        ("'\\xff'", "not valid UTF-8"),
        ("'\\xed\\xa0\\x80'", "not valid UTF-8"),
        ("{['\\xc0\\x80'] = 1}", "not valid UTF-8"),
        ("(function() local t = {} t.t = t return t end)()", "nested more than 127 levels"),
        ("(function() local t = toarray{} t.x = 1 return t end)()", "mixes an array with named fields"),
    ] {
        let error = stage.error_of(&format!("json.encode({value})")).await;
        assert!(error.contains(message) && error.contains(":1: json.encode: "), "{value}: {error}");
    }
}

#[tokio::test]
async fn reads_what_json_allows() {
    let stage = Stage::set().await;
    for (text, expression, expected) in [
        ("[]", "json.encode(v)", json!("[]")),
        ("{}", "json.encode(v)", json!("{}")),
        (" [ 1 , 2 ] ", "#v", json!(2)),
        ("null", "v == json.null", json!(true)),
        ("null", "v == nil", json!(false)),
        ("9223372036854775807", "math.type(v)", json!("integer")),
        ("-9223372036854775808", "v == math.mininteger", json!(true)),
        ("9223372036854775808", "math.type(v)", json!("float")),
        ("18446744073709551615", "v == 2^64", json!(true)),
        ("99999999999999999999999", "v == 1e23", json!(true)),
        ("1.0", "math.type(v)", json!("float")),
        ("1e2", "v == 100", json!(true)),
        ("-0", "v == 0", json!(true)),
        ("0.1", "v == 0.1", json!(true)),
        ("123456789012345678901234567890e-20", "v == 1234567890.1234567890", json!(true)),
        ("2.2250738585072011e-308", "v > 0", json!(true)),
        ("1e-400", "v == 0", json!(true)),
        (r#""\u0041\u00e9\ud83d\ude00\/\b""#, "v", json!("Aé😀/\u{8}")),
        (r#""\u0000""#, "#v", json!(1)),
        (r#"{"a":1,"a":2}"#, "v.a", json!(2)),
        (r#"{"":1}"#, "v['']", json!(1)),
    ] {
        let read = format!("(function() local v = json.decode([==[{text}]==]) return {expression} end)()");
        assert_eq!(stage.eval(&read).await, expected, "{text}: {expression}");
    }
}

#[tokio::test]
async fn refuses_what_is_no_json() {
    let stage = Stage::set().await;
    for (text, message) in [
        ("", "unexpected end"),
        ("[", "unexpected end"),
        ("[1", "unfinished array"),
        ("[1,]", "unexpected character"),
        ("[1 2]", "expected ','"),
        ("{", "unfinished object"),
        ("{a:1}", "expected a name"),
        (r#"{"a" 1}"#, "expected ':'"),
        (r#"{"a":1,}"#, "expected a name"),
        (r#"{"a":1"#, "unfinished object"),
        ("1 2", "trailing characters"),
        ("nul", "unexpected character"),
        ("True", "unexpected character"),
        ("01", "bad number"),
        ("-", "bad number"),
        ("1.", "bad number"),
        (".5", "unexpected character"),
        ("1e", "bad number"),
        ("+1", "unexpected character"),
        ("1e400", "number out of range"),
        ("NaN", "unexpected character"),
        ("'a'", "unexpected character"),
        (r#""a"#, "unfinished string"),
        (r#""\"#, "unfinished string"),
        (r#""\x""#, "bad escape"),
        (r#""\u12""#, "unfinished escape"),
        (r#""\ud800""#, "lone surrogate"),
        (r#""\udc00""#, "lone surrogate"),
        (r#""\ud800\u0041""#, "lone surrogate"),
        ("\"\u{1}\"", "control character"),
        ("[1]x", "trailing characters at byte 4"),
    ] {
        let error = stage.error_of(&format!("json.decode([==[{text}]==])")).await;
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(stage.error_of("json.decode('\"\\xff\"')").await.contains("not valid UTF-8"));
    assert!(stage.error_of("json.decode()").await.contains("string expected"));
}

#[tokio::test]
async fn nesting_has_one_bound_both_ways() {
    let stage = Stage::set().await;
    let decode = |n: usize| format!("#json.encode(json.decode(('['):rep({n}) .. (']'):rep({n})))");
    assert_eq!(stage.eval(&decode(127)).await, json!(254));
    assert!(stage.error_of(&decode(128)).await.contains("nested too deeply"));
    let encode = |n: usize| {
        format!(
            "(function() local t = toarray{{}} for i = 2, {n} do t = {{t}} end return #json.encode(t) end)()"
        )
    };
    assert_eq!(stage.eval(&encode(127)).await, json!(254));
    assert!(stage.error_of(&encode(128)).await.contains("nested more than 127 levels"));
    // The host can read the deepest result.
    let deep = stage.handle("local t = 1 for i = 1, 127 do t = {t} end return t").await.unwrap();
    assert!(deep.is_array());
    let failure = stage.handle("local t = 1 for i = 1, 128 do t = {t} end return t").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Runtime);
    assert!(failure.message.contains(": result[1][1]"), "{failure}");
}

#[tokio::test]
async fn large_objects_and_arrays_survive() {
    let stage = Stage::set().await;
    for n in [0, 1, 15, 16, 17, 31, 32, 33, 1000] {
        let object: Value =
            (0..n).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
        let value = json!({ "o": object, "a": (0..n).collect::<Vec<_>>() });
        assert_eq!(round_trip(&stage, &value).await, value, "{n}");
    }
}

async fn round_trip(stage: &Stage, value: &Value) -> Value {
    let input = value.to_string();
    let invocation = Invocation { input: Some(input.as_bytes()), ..Invocation::default() };
    let outcome = stage.run_with("function handle() return input end", invocation).await.unwrap();
    serde_json::from_slice(&outcome.body).unwrap()
}

/// Equal as JSON values; numbers are compared by value. serde_json may parse a float with an error in the last digit;
/// [`any_float_comes_back_the_same`] is exact.
fn same(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Number(before), Value::Number(after)) => {
            let (x, y) = (before.as_f64().unwrap(), after.as_f64().unwrap());
            before == after || (x - y).abs() <= x.abs() * 1e-15
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(x, y)| same(x, y))
        }
        (Value::Object(before), Value::Object(after)) => {
            before.len() == after.len()
                && before.iter().all(|(name, x)| after.get(name).is_some_and(|y| same(x, y)))
        }
        _ => before == after,
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1_000_i64..1_000).prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |n| n.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 200, 40, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..40)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn any_float_comes_back_the_same() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = runtime.block_on(Stage::set());
    let mut runner = proptest::test_runner::TestRunner::new(config());
    runner
        .run(&prop::collection::vec(any_float(), 1..50), |floats| {
            let input = serde_json::to_string(&floats).unwrap();
            let invocation = Invocation { input: Some(input.as_bytes()), ..Invocation::default() };
            let body = runtime
                .block_on(stage.run_with("function handle() return input end", invocation))
                .unwrap()
                .body;
            let text = std::str::from_utf8(&body).unwrap().trim_matches(['[', ']']);
            let back: Vec<f64> = text.split(',').map(|n| n.parse().unwrap()).collect();
            prop_assert_eq!(floats, back, "{}", text);
            Ok(())
        })
        .unwrap();
}

/// Any finite float, and often one with few decimals.
fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("JSON has no such number", |n| n.is_finite()),
        (any::<i32>(), 0..12).prop_map(|(digits, scale)| f64::from(digits) / 10_f64.powi(scale)),
    ]
}

/// Without a file of past failures: those are added as cases to the tests above.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

#[test]
fn any_value_comes_back_the_same() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = runtime.block_on(Stage::set());
    let mut runner = proptest::test_runner::TestRunner::new(config());
    runner
        .run(&any_json(), |value| {
            // A nil at the end of an array would be lost, but a JSON null becomes json.null, which is not nil.
            let back = runtime.block_on(round_trip(&stage, &value));
            prop_assert!(same(&value, &back), "{value} came back as {back}");
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn toarray_marks_the_table_itself() {
    let stage = Stage::set().await;
    for (body, expected) in [
        ("local t = {} return { rawequal(toarray(t), t), json.encode(t) }", json!([true, "[]"])),
        ("local t = toarray{} return rawequal(toarray(t), t)", json!(true)),
        ("local t = toarray{ 1 } t[#t + 1] = 2 table.insert(t, 3) return t", json!([1, 2, 3])),
        // A value that can't be marked is copied.
        (
            "local t = { 1, n = 1 } return { rawequal(toarray(t), t), toarray(t), t.n }",
            json!([false, [1], 1]),
        ),
        ("return toarray(table.pack(7, 8))", json!([7, 8])),
        (
            "local t = setmetatable({ 1 }, { __index = { x = 2 } }) local a = toarray(t) return { rawequal(a, t), a, t.x }",
            json!([false, [1], 2]),
        ),
        ("return toarray(setmetatable({}, {}))", json!([])),
        // The collector moves on while the table is marked.
        (
            "local t = {} for i = 1, 20000 do t[i] = { i } end toarray(t) for i = 1, 20000 do t[i] = nil end return t",
            json!([]),
        ),
    ] {
        assert_eq!(stage.handle(body).await.unwrap(), expected, "{body}");
    }
}

#[tokio::test]
async fn decoding_a_table_gives_the_table() {
    let stage = Stage::set().await;
    assert_eq!(
        stage.handle("local t = { a = 1 } return rawequal(json.decode(t), t)").await.unwrap(),
        json!(true)
    );
    assert!(stage.error_of("json.decode(true)").await.contains("string expected"));
}
