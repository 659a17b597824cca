//! Compares what a page lists with what the index has in its range. `list_writer` stores a difference, `verify` reports it.

use std::collections::{HashMap, HashSet};

use super::page::ListedRecord;
use belvedere_protocol::atproto::Tid;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::backfill::{IndexedRecords, IndexedRow, KeyRange};

/// The differences of the index and a page. Each record of the page is in one of the first three lists, in the page's
/// order.
#[derive(Debug, Default)]
pub(super) struct Diff {
    /// Records that the index has in this version or a newer one.
    pub(super) same: Vec<ListedRecord>,
    /// Records that the index does not have.
    pub(super) missing: Vec<ListedRecord>,
    /// Records that the index has in another version.
    pub(super) stale: Vec<ListedRecord>,
    /// Records that the index has and the page lacks, without those that are newer than the page.
    pub(super) extra: Vec<IndexedRow>,
}

/// Compares the records of a page with the `rows` of the index. `rev`: the repo's rev before it was listed.
pub(super) fn diff(page: Vec<ListedRecord>, rows: Vec<IndexedRow>, rev: Tid) -> Diff {
    let is_newer = |row: &IndexedRow| row.rev > rev.as_u64();
    let listed: HashSet<&str> = page.iter().map(|record| record.rkey.as_str()).collect();
    let (rows, mut extra): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| listed.contains(row.rkey.as_str()));
    extra.retain(|row| !is_newer(row));
    let rows: HashMap<&str, &IndexedRow> = rows.iter().map(|row| (row.rkey.as_str(), row)).collect();
    let mut diff = Diff { extra, ..Diff::default() };
    for record in page {
        match rows.get(record.rkey.as_str()) {
            None => diff.missing.push(record),
            Some(row) if is_newer(row) || row.cid.is_some_and(|cid| record.claims(cid)) => {
                diff.same.push(record);
            }
            Some(_) => diff.stale.push(record),
        }
    }
    diff
}

/// The differences of a page, in parts: the index may have any number of records in its range.
#[derive(Debug)]
pub(super) struct Diffs<'a> {
    index: IndexedRecords<'a>,
    rev: Tid,
    /// The rest of the page.
    records: Vec<ListedRecord>,
    /// The rest of the range in which the page has all that exists; `None`: only its own keys are compared.
    range: Option<KeyRange>,
    is_done: bool,
}

impl<'a> Diffs<'a> {
    pub(super) fn new(
        index: IndexedRecords<'a>,
        rev: Tid,
        records: Vec<ListedRecord>,
        range: Option<KeyRange>,
    ) -> Self {
        Self { index, rev, records, range, is_done: false }
    }

    /// The next part; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Diff>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let (rows, rest) = if let Some(range) = self.range.take() {
            self.index.part(range).await?
        } else {
            let keys: Vec<&str> = self.records.iter().map(|record| record.rkey.as_str()).collect();
            (self.index.with_keys(&keys).await?, None)
        };
        let mut part = std::mem::take(&mut self.records);
        if let Some(last) = rest.as_ref().and_then(|rest| rest.below.as_ref()) {
            // A page that is complete descends.
            self.records =
                part.split_off(part.partition_point(|record| record.rkey.as_str() >= last.as_str()));
        }
        (self.is_done, self.range) = (rest.is_none(), rest);
        Ok(Some(diff(part, rows, self.rev)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;
    use crate::indexing::{Claim, ClaimedRecord};
    use belvedere_base::clock::Timestamp;
    use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, record};
    use belvedere_storage::store::index::{self, Batch, Change, CheckedRecord, Validity};
    use belvedere_storage::store::testing;

    const REV: u64 = 1_700_000_000_000_000;

    fn rev() -> Tid {
        Tid::new(REV, 1).unwrap()
    }

    fn key(name: char) -> RecordKey {
        RecordKey::try_from(name.to_string().as_str()).unwrap()
    }

    fn cid(version: u8) -> Cid {
        record::inspect(format!("{{\"version\":{version}}}").as_bytes()).unwrap().cid.unwrap()
    }

    fn listed_as(name: char, claim: Claim) -> ListedRecord {
        ListedRecord { rkey: key(name), record: ClaimedRecord { text: Bytes::new(), claim } }
    }

    fn listed(name: char, version: u8) -> ListedRecord {
        listed_as(name, Claim::Cid(cid(version)))
    }

    /// A row of a record in this version, stored with a rev that is `newer` than the list's. 0: the CID is unknown.
    fn row(name: char, version: u8, newer: i64) -> IndexedRow {
        let rev = rev().as_u64().wrapping_add_signed(newer);
        IndexedRow { rkey: key(name), rev, cid: (version > 0).then(|| cid(version)) }
    }

    fn names<'a>(keys: impl Iterator<Item = &'a RecordKey>) -> String {
        keys.map(RecordKey::as_str).collect()
    }

    /// A row at the border of two parts whose record is listed is not extra: what a CAR lacks is removed at once.
    #[tokio::test]
    async fn a_range_is_compared_in_parts() {
        const ROWS: u32 = 2_100;
        let db = testing::sqlite().await;
        let (did, collection) =
            (Did::try_from("did:plc:a").unwrap(), Nsid::try_from("com.example.note").unwrap());
        let rkey = |n: u32| RecordKey::try_from(format!("{n:04}").as_str()).unwrap();
        let record = CheckedRecord {
            text: Bytes::from_static(b"{}"),
            cid: Some(cid(1)),
            cid_verified: true,
            refs: Vec::new(),
            validity: Validity::Valid,
        };
        let change = |n| {
            let uri = RecordUri { did: did.clone(), collection: collection.clone(), rkey: rkey(n) };
            Change { uri, rev: rev(), record: Some(record.clone()) }
        };
        let batch = Batch { changes: (0..ROWS).map(change).collect(), ..Batch::default() };
        index::apply(&db, &batch).await.unwrap();

        let claimed = || ClaimedRecord { text: Bytes::new(), claim: Claim::Cid(cid(1)) };
        // All but one row of each part, the highest first.
        let is_listed = |n: u32| ![2_050, 1_050, 50].contains(&n);
        let page: Vec<_> = (0..ROWS).rev().filter(|n| is_listed(*n)).collect();
        let page = page.into_iter().map(|n| ListedRecord { rkey: rkey(n), record: claimed() }).collect();
        let rows = IndexedRecords::open(&db, &did, &collection, Timestamp(REV as i64)).await.unwrap();
        let mut diffs = Diffs::new(rows, rev(), page, Some(KeyRange::default()));
        let (mut same, mut extra, mut parts) = (0, Vec::new(), 0);
        while let Some(diff) = diffs.next().await.unwrap() {
            assert!(diff.missing.is_empty() && diff.stale.is_empty());
            same += diff.same.len();
            extra.extend(diff.extra.into_iter().map(|row| row.rkey));
            parts += 1;
        }
        assert_eq!((same, parts), (ROWS as usize - 3, 3));
        assert_eq!(extra, [2_050, 1_050, 50].map(rkey));
    }

    #[test]
    fn records_are_the_same_missing_or_stale_and_rows_are_extra() {
        type Rows<'a> = &'a [(char, u8, i64)];
        for (page, rows, same, missing, stale, extra) in [
            ("", &[] as Rows<'_>, "", "", "", ""),
            ("cba", &[], "", "cba", "", ""),
            ("b", &[('b', 1, -1)], "b", "", "", ""),
            ("b", &[('b', 1, 0)], "b", "", "", ""),
            ("b", &[('b', 2, -1)], "", "", "b", ""),
            ("b", &[('b', 2, 0)], "", "", "b", ""),
            // A record that is newer than the list stays in any case.
            ("b", &[('b', 2, 1)], "b", "", "", ""),
            ("b", &[('c', 1, 1), ('b', 0, 1)], "b", "", "", ""),
            ("b", &[('b', 0, -1)], "", "", "b", ""),
            ("b", &[('c', 1, -1), ('b', 1, -1), ('a', 1, 0)], "b", "", "", "ca"),
            ("", &[('c', 1, -1), ('b', 1, 1), ('a', 1, 0)], "", "", "", "ca"),
            // A list without order that repeats a key.
            ("aca", &[('a', 1, -1)], "aa", "c", "", ""),
            ("edcb", &[('d', 2, -1), ('c', 1, -1), ('a', 1, -1)], "c", "eb", "d", "a"),
        ] {
            let records = page.chars().map(|name| listed(name, 1)).collect();
            let indexed = rows.iter().map(|(name, version, newer)| row(*name, *version, *newer)).collect();
            let found = diff(records, indexed, rev());
            let lists = [&found.same, &found.missing, &found.stale];
            let lists = lists.map(|list| names(list.iter().map(|record| &record.rkey)));
            assert_eq!(lists, [same, missing, stale], "{page} {rows:?}");
            assert_eq!(names(found.extra.iter().map(|row| &row.rkey)), extra, "{page} {rows:?}");
        }
        let unclaimed = listed_as('a', Claim::None);
        assert_eq!(diff(vec![unclaimed], vec![row('a', 0, -1)], rev()).stale.len(), 1);
    }

    proptest! {
        /// After its difference was applied, the index has what the page lists, except for what was newer.
        #[test]
        fn a_difference_leads_to_the_page(
            page in btree_map(prop::char::range('a', 'f'), 1..3_u8, 0..6),
            rows in btree_map(prop::char::range('a', 'f'), (0..3_u8, -2..3_i64), 0..6),
        ) {
            let records = page.iter().rev().map(|(name, version)| listed(*name, *version)).collect();
            let stored = rows.iter().rev().map(|(name, (version, newer))| row(*name, *version, *newer)).collect();
            let Diff { same, missing, stale, extra } = diff(records, stored, rev());
            prop_assert_eq!(same.len() + missing.len() + stale.len(), page.len());
            let name = |rkey: &RecordKey| rkey.as_str().chars().next().unwrap();
            let mut index: BTreeMap<char, u8> = rows.iter().map(|(name, (version, _))| (*name, *version)).collect();
            for record in missing.iter().chain(&stale) {
                index.insert(name(&record.rkey), page[&name(&record.rkey)]);
            }
            for row in &extra {
                index.remove(&name(&row.rkey));
            }
            let newer = rows.iter().filter(|(_, (_, newer))| *newer > 0);
            let mut expected = page;
            expected.extend(newer.map(|(name, (version, _))| (*name, *version)));
            prop_assert_eq!(index, expected);
        }
    }
}
