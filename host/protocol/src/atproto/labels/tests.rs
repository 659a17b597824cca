use proptest::prelude::*;
use shrike::cbor::{Value, encode_value};

use super::frame::InvalidFrame;
use super::label::MAX_VALUE_BYTES;
use super::*;
use belvedere_base::clock::Timestamp;

const LABELER: &str = "did:plc:labelerlabelerlabelerlab";
const NOTE: &str = "at://did:plc:alicealicealicealicealic/com.example.note/1";

type Fields<'a> = Vec<(&'a str, Value<'a>)>;

fn fields<'a>() -> Fields<'a> {
    vec![
        ("ver", Value::Unsigned(1)),
        ("src", Value::Text(LABELER)),
        ("uri", Value::Text(NOTE)),
        ("val", Value::Text("spam")),
        ("cts", Value::Text("2024-05-01T12:00:00.000Z")),
        ("sig", Value::Bytes(&[7; 64])),
    ]
}

fn with<'a>(name: &'a str, value: Value<'a>) -> Fields<'a> {
    let mut fields = fields();
    fields.retain(|(other, _)| *other != name);
    fields.push((name, value));
    fields
}

fn message(header: Fields<'_>, body: Fields<'_>) -> Vec<u8> {
    [encode_value(&Value::Map(header)).unwrap(), encode_value(&Value::Map(body)).unwrap()].concat()
}

fn labels(seq: u64, labels: Vec<Fields<'_>>) -> Vec<u8> {
    let labels = labels.into_iter().map(Value::Map).collect();
    message(
        vec![("op", Value::Unsigned(1)), ("t", Value::Text("#labels"))],
        vec![("seq", Value::Unsigned(seq)), ("labels", Value::Array(labels))],
    )
}

fn one(label: Fields<'_>) -> Result<SignedLabel, InvalidLabel> {
    match decode(&labels(1, vec![label])) {
        Ok(LabelFrame::Labels { mut labels, .. }) => labels.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_labels_and_what_their_signatures_cover() {
    let frame = decode(&labels(7, vec![fields(), with("ver", Value::Unsigned(2))])).unwrap();
    let LabelFrame::Labels { seq: 7, labels } = frame else { panic!("{frame:?}") };
    let label = labels[0].as_ref().unwrap();
    assert_eq!((label.src.as_str(), label.uri.as_str(), label.val.as_str()), (LABELER, NOTE, "spam"));
    assert_eq!(label.cts, Timestamp::parse("2024-05-01T12:00:00Z").unwrap());
    assert_eq!((label.neg, label.exp, label.cid, &label.signature), (false, None, None, &Some(vec![7; 64])));
    let mut unsigned = fields();
    unsigned.retain(|(name, _)| *name != "sig");
    assert_eq!(label.signed_bytes, encode_value(&Value::Map(unsigned)).unwrap());
    assert_eq!(labels[1], Err(InvalidLabel::Version), "the other label of the frame is kept");
}

#[test]
fn unknown_fields_and_an_explicit_neg_are_signed() {
    for (name, value) in [("neg", Value::Bool(false)), ("new", Value::Array(vec![Value::Text("x")]))] {
        let label = one(with(name, value)).unwrap();
        assert!(label.signed_bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
    assert!(one(with("neg", Value::Bool(true))).unwrap().neg);
}

#[test]
fn every_field_is_checked() {
    let long = "x".repeat(MAX_VALUE_BYTES + 1);
    let far = format!("at://did:plc:a/com.example.note/{}", "x".repeat(2048));
    for (name, value, error) in [
        ("ver", Value::Text("1"), InvalidLabel::Version),
        ("src", Value::Text("alice.test"), InvalidLabel::Source),
        ("src", Value::Null, InvalidLabel::Malformed),
        ("uri", Value::Text("https://example.com"), InvalidLabel::Subject),
        ("uri", Value::Text("at://alice.test/com.example.note/1"), InvalidLabel::Subject),
        ("uri", Value::Text("at://did:plc:a/com.example.note/\0"), InvalidLabel::Subject),
        ("uri", Value::Text(&far), InvalidLabel::Subject),
        ("uri", Value::Text("at://did:plc:a/space/com.example.group/main"), InvalidLabel::Space),
        (
            "uri",
            Value::Text("at://did:plc:a/space/com.example.group/main/did:plc:b/com.example.note/1"),
            InvalidLabel::Space,
        ),
        ("val", Value::Text(""), InvalidLabel::Value),
        ("val", Value::Text(&long), InvalidLabel::Value),
        ("val", Value::Text("a\0b"), InvalidLabel::Value),
        ("val", Value::Unsigned(7), InvalidLabel::Malformed),
        ("cts", Value::Text("2024-05-01 12:00:00Z"), InvalidLabel::Time),
        ("cts", Value::Text("2024-05-01T12:00:00"), InvalidLabel::Time),
        ("cts", Value::Text("2024-13-01T12:00:00Z"), InvalidLabel::Time),
        ("exp", Value::Text("tomorrow"), InvalidLabel::Time),
        ("exp", Value::Unsigned(7), InvalidLabel::Time),
        ("cid", Value::Text("no"), InvalidLabel::Cid),
        ("cid", Value::Unsigned(7), InvalidLabel::Cid),
        ("neg", Value::Unsigned(1), InvalidLabel::Malformed),
        ("sig", Value::Text("x"), InvalidLabel::Malformed),
    ] {
        assert_eq!(one(with(name, value.clone())), Err(error), "{name} {value:?}");
    }
    for missing in ["ver", "src", "uri", "val", "cts"] {
        let mut label = fields();
        label.retain(|(name, _)| *name != missing);
        assert!(one(label).is_err(), "{missing}");
    }
}

#[test]
fn reads_errors_infos_and_kinds_of_later_versions() {
    let body = || vec![("error", Value::Text("FutureCursor")), ("message", Value::Text("later\n"))];
    let error = decode(&message(vec![("op", Value::Signed(-1))], body())).unwrap();
    assert_eq!(error, LabelFrame::Error { error: "FutureCursor".into(), message: "later".into() });
    let info = vec![("op", Value::Unsigned(1)), ("t", Value::Text("#info"))];
    let info = decode(&message(info, vec![("name", Value::Text("OutdatedCursor"))])).unwrap();
    assert_eq!(info, LabelFrame::Info { name: "OutdatedCursor".into(), message: String::new() });
    let later = vec![("op", Value::Unsigned(1)), ("t", Value::Text("#later"))];
    assert_eq!(decode(&message(later, Vec::new())), Ok(LabelFrame::Other));
}

#[test]
fn refuses_what_is_no_frame() {
    let good = labels(1, vec![fields()]);
    let header =
        encode_value(&Value::Map(vec![("op", Value::Unsigned(1)), ("t", Value::Text("#labels"))])).unwrap();
    let other_header = |op| message(vec![("op", op)], Vec::new());
    for (bad, why) in [
        (Vec::new(), InvalidFrame::Items),
        (b"{}".to_vec(), InvalidFrame::Cbor),
        (good[..good.len() - 1].to_vec(), InvalidFrame::Cbor),
        (header.clone(), InvalidFrame::Items),
        ([&good[..], &[0]].concat(), InvalidFrame::Items),
        (other_header(Value::Unsigned(2)), InvalidFrame::Header),
        (other_header(Value::Unsigned(1)), InvalidFrame::Header),
        (other_header(Value::Signed(-1)), InvalidFrame::Body),
        ([&header[..], &[0xa0]].concat(), InvalidFrame::Body),
        // Negative numbers have no place in a stream.
        ([&header[..], b"\xa2\x63seq\x20\x66labels\x80"].concat(), InvalidFrame::Body),
        // An array that announces half a million items in each of ten levels.
        ([&header[..], &[0x9a, 0, 7, 0xa1, 0x20].repeat(10)].concat(), InvalidFrame::Cbor),
        // A byte string that announces more than there is.
        ([&header[..], &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]].concat(), InvalidFrame::Cbor),
        ([&header[..], &[0x81; 9], &[0]].concat(), InvalidFrame::Cbor),
    ] {
        assert_eq!(decode(&bad), Err(why), "{bad:02x?}");
    }
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn never_panics_on_damaged_frames(at in 0_usize..200, byte: u8, cut in 0_usize..200) {
        let mut frame = labels(7, vec![fields(), fields()]);
        let length = frame.len();
        frame[at % length] = byte;
        let _ = decode(&frame);
        let _ = decode(&frame[cut % length..]);
    }
}
