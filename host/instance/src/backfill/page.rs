//! A page of a list of records: as its server gives it, and what of it belongs to the collection that was asked for.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure::{ErrorKind, Failure};
use super::left_out::LeftOut;
use crate::indexing::{Claim, ClaimedRecord};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri};

/// A page of the records of a collection, as its PDS gives it.
#[derive(Debug)]
pub(super) struct RecordPage {
    pub(super) cursor: Option<String>,
    pub(super) records: Vec<PageRecord>,
    /// Records without a URI, a CID or a value.
    pub(super) malformed: usize,
    /// Bytes of the response.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct PageRecord {
    pub(super) uri: String,
    /// JSON text of the claimed CID.
    pub(super) cid: String,
    /// JSON text of the record.
    pub(super) value: Bytes,
}

/// A page of the records of one collection of a repo.
#[derive(Debug, Default)]
pub(super) struct ListedPage {
    pub(super) records: Vec<ListedRecord>,
    /// The other entries of the page.
    pub(super) strays: LeftOut,
    /// The cursor of the next page; `None`: this is the last one.
    pub(super) next: Option<String>,
}

#[derive(Debug)]
pub(super) struct ListedRecord {
    pub(super) rkey: RecordKey,
    pub(super) record: ClaimedRecord,
}

#[derive(Deserialize)]
struct RecordsOutput<'a> {
    cursor: Option<String>,
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RecordOutput<'a> {
    uri: String,
    #[serde(borrow)]
    cid: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

impl RecordPage {
    pub(super) fn parse(body: &Bytes) -> Result<Self, Failure> {
        let RecordsOutput { cursor, records: listed } = parse(body)?;
        let mut records = Vec::with_capacity(listed.len());
        let mut malformed = 0;
        for raw in listed {
            match serde_json::from_str::<RecordOutput<'_>>(raw.get()) {
                Ok(record) => records.push(PageRecord {
                    uri: record.uri,
                    cid: record.cid.get().to_owned(),
                    value: Bytes::copy_from_slice(record.value.get().as_bytes()),
                }),
                Err(_) => malformed += 1,
            }
        }
        // A PDS may send an empty cursor instead of none.
        let cursor = cursor.filter(|cursor| !cursor.is_empty());
        Ok(Self { cursor, records, malformed, bytes: body.len() })
    }

    /// The records of one collection of a repo.
    pub(super) fn of(self, did: &Did, collection: &Nsid) -> ListedPage {
        let Self { cursor, records, malformed, bytes } = self;
        let mut page = ListedPage { next: cursor, ..ListedPage::default() };
        hand_over_thread(bytes, || {
            for PageRecord { uri, cid, value } in records {
                match RecordUri::parse(&uri) {
                    Ok(RecordUri { did: repo, collection: of, rkey })
                        if repo == *did && of == *collection =>
                    {
                        let record = ClaimedRecord { text: value, claim: Claim::parse(&cid) };
                        page.records.push(ListedRecord { rkey, record });
                    }
                    _ => page.strays.add(uri, "it is listed, but is no record of this collection"),
                }
            }
        });
        for _ in 0..malformed {
            page.strays.add(collection, "it is listed without a URI, a CID or a value");
        }
        page
    }
}

impl ListedRecord {
    /// Whether the PDS says that the record has this CID.
    pub(super) fn claims(&self, cid: Cid) -> bool {
        self.record.claim == Claim::Cid(cid)
    }
}

/// Bytes of records.
pub(super) fn bytes_of<'a>(records: impl IntoIterator<Item = &'a ListedRecord>) -> usize {
    records.into_iter().map(|listed| listed.record.text.len()).sum()
}

/// A body that is not the method's output is the server's failure: a proxy answers with a page of its own, for example.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|error| Failure::new(ErrorKind::PdsServerError, format!("unexpected response: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::failure::ErrorKind;
    use super::*;

    #[test]
    fn a_malformed_record_does_not_spoil_its_page() {
        let body = br#"{"cursor":"","records":[{"uri":"at://x","cid":"bafy","value":{"a":1}},{"uri":7},3]}"#;
        let page = RecordPage::parse(&Bytes::from_static(body)).unwrap();
        assert_eq!((page.cursor, page.records.len(), page.malformed), (None, 1, 2));
        assert_eq!((&page.records[0].value[..], &*page.records[0].cid), (&br#"{"a":1}"#[..], "\"bafy\""));
        for body in ["<html>", "[]", "{}", r#"{"records":{}}"#, r#"{"cursor":7,"records":[]}"#] {
            let failure = RecordPage::parse(&Bytes::from(body)).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::PdsServerError, "{body}");
        }
    }

    #[test]
    fn only_records_of_the_collection_are_not_strays() {
        let (did, collection) =
            (Did::try_from("did:plc:a").unwrap(), Nsid::try_from("com.example.a").unwrap());
        let uris = [
            "at://did:plc:a/com.example.a/x",
            "at://did:plc:b/com.example.a/y",
            "at://did:plc:a/com.example.b/z",
        ];
        let record =
            |uri: &&str| PageRecord { uri: (*uri).to_owned(), cid: String::new(), value: Bytes::new() };
        let records = uris.iter().map(record).collect();
        let page = RecordPage { cursor: None, records, malformed: 1, bytes: 0 }.of(&did, &collection);
        assert_eq!((page.records.len(), page.records[0].rkey.as_str(), page.strays.count()), (1, "x", 3));
    }
}
