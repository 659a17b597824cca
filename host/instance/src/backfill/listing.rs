//! Follows the list of a collection's records through its pages, and decides what the pages prove.
//!
//! A PDS lists records by descending record key. While the pages are in that order, a key between two keys of a page
//! that is not on the page does not exist upstream. Nothing is concluded from a list in another order, or from an
//! incomplete one. Only a missing cursor ends a list: a page without records may be followed by others.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use super::failure::Failure;
use super::left_out::LeftOut;
use super::page::ListedPage;
use super::request::PAGE_RECORDS;
use belvedere_protocol::atproto::{Nsid, RecordKey, Tid};
use belvedere_storage::store::backfill::{CollectionPosition, KeyRange};

/// Pages of one collection of one repo, which are five million records if the PDS gives the pages that it is asked for. A
/// list without an end is given up there.
const MAX_PAGES: u32 = 50_000;

/// Record keys that are remembered of a list without order, some twenty megabytes: a PDS that ignores `limit` can put
/// tens of thousands on a page. Lists in order have no such limit, since they need no memory.
const MAX_UNORDERED_KEYS: usize = 1_000_000;

/// Absent records that are kept until the end of a list proves that it was in order. Beyond it, they are removed before.
pub(super) const MAX_ABSENT: usize = 10_000;

/// The position up to which the records of a collection of a repo were read.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) collection: Nsid,
    cursor: Option<String>,
    last_key: Option<RecordKey>,
    /// The URI of the record with the lowest key, if the PDS has proved it.
    pub(super) lowest: Option<String>,
    /// Records of the index that the pages so far lack, with the revs of their removals. They stay until the PDS denies
    /// each of them.
    pub(super) absent: Vec<(RecordKey, Tid)>,
    /// Those of them that the PDS has denied.
    pub(super) denied: i64,
    /// Records that were listed but can't be indexed.
    pub(super) left_out: LeftOut,
    is_ordered: bool,
    pub(super) is_done: bool,
    pub(super) records: i64,
    /// Records of the next page.
    pub(super) limit: usize,
    pages: u32,
    hasher: RandomState,
    /// Hashes of the cursors that the PDS gave.
    cursors: HashSet<u64>,
    /// Hashes of the record keys, once the list is not in order. An ordered list can't repeat any.
    keys: HashSet<u64>,
}

impl Listing {
    pub(super) fn new(collection: Nsid) -> Self {
        Self {
            collection,
            cursor: None,
            last_key: None,
            lowest: None,
            absent: Vec::new(),
            denied: 0,
            left_out: LeftOut::default(),
            is_ordered: true,
            is_done: false,
            records: 0,
            limit: PAGE_RECORDS,
            pages: 0,
            hasher: RandomState::new(),
            cursors: HashSet::new(),
            keys: HashSet::new(),
        }
    }

    /// The listing at a stored position.
    pub(super) fn at(collection: Nsid, position: CollectionPosition) -> Self {
        let CollectionPosition { collection: _, cursor, last_rkey, is_ordered, is_done, records } = position;
        let last_key = last_rkey.and_then(|key| RecordKey::try_from(key.as_str()).ok());
        Self { cursor, last_key, is_ordered, is_done, records, ..Self::new(collection) }
    }

    pub(super) fn position(&self) -> CollectionPosition {
        CollectionPosition {
            collection: self.collection.to_string(),
            cursor: self.cursor.clone(),
            last_rkey: self.last_key.as_ref().map(ToString::to_string),
            is_ordered: self.is_ordered,
            is_done: self.is_done,
            records: self.records,
        }
    }

    /// Whether a later attempt can go on from the position, once the records before it were committed. Not with records that
    /// were left out: their number is not stored, so they are read again. Nor with absent records that were not removed yet:
    /// only the pages show them.
    pub(super) fn can_be_continued(&self) -> bool {
        let is_begun = self.is_done || self.cursor.is_some();
        is_begun && self.absent.is_empty() && self.left_out.is_empty()
    }

    /// The cursor of the next page; `None`: the first page.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The last record key so far; all that follow are lower.
    pub(super) fn last_key(&self) -> Option<&RecordKey> {
        self.last_key.as_ref()
    }

    /// Whether nothing of the list was read yet.
    pub(super) fn is_new(&self) -> bool {
        !self.is_done && self.pages == 0 && self.cursor.is_none()
    }

    /// Whether more pages probably follow. PDSs give a cursor with the last page too.
    pub(super) fn is_long(&self) -> bool {
        !self.is_done && self.cursor.is_some() && self.records >= self.limit as i64
    }

    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether all pages so far were in order.
    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Concludes nothing from the list any more: the PDS has a record that its pages lack.
    pub(super) fn disprove(&mut self) {
        self.is_ordered = false;
        self.absent.clear();
    }

    /// Ends the list where another source has read the rest of it.
    pub(super) fn end_with(&mut self, rest: Self) {
        self.is_done = true;
        self.records = rest.records;
        self.left_out.append(rest.left_out);
    }

    /// Takes the keys of a page. Returns the range of keys in which the page has all that exists; `None`: there may be
    /// more anywhere.
    ///
    /// # Errors
    /// When the page has no new key: the list repeats itself. When a list without order has too many keys.
    pub(super) fn take_page(&mut self, page: &ListedPage) -> Result<Option<KeyRange>, Failure> {
        self.pages += 1;
        let keys = || page.records.iter().map(|record| &record.rkey);
        let descends =
            self.last_key.iter().chain(keys()).is_sorted_by(|higher, lower| higher.as_str() > lower.as_str());
        self.is_ordered = self.is_ordered && page.strays.is_empty() && descends;
        if !self.is_ordered {
            let mut new = 0;
            for key in keys() {
                new += usize::from(self.keys.insert(self.hasher.hash_one(key.as_str())));
            }
            if new == 0 && !page.records.is_empty() {
                return Err(Failure::other("the PDS lists the same records again"));
            }
            if self.keys.len() > MAX_UNORDERED_KEYS {
                return Err(Failure::other(format!(
                    "the PDS lists more than {MAX_UNORDERED_KEYS} records without an order"
                )));
            }
            return Ok(None);
        }
        let (below, from) = (self.last_key.clone(), page.next.as_ref().and(keys().last().cloned()));
        // A page without records may be followed by others.
        Ok((page.next.is_none() || from.is_some()).then_some(KeyRange { below, from }))
    }

    /// Goes on to the next page, after the records of this one were committed: `last` was its last key, `next` is the
    /// cursor of the next one, `records` were valid. A page without a cursor is the last one.
    ///
    /// # Errors
    /// When the list does not end.
    pub(super) fn advance(
        &mut self,
        last: Option<RecordKey>,
        next: Option<String>,
        records: i64,
    ) -> Result<(), Failure> {
        self.records += records;
        let Some(next) = next else {
            self.is_done = true;
            return Ok(());
        };
        self.last_key = last.or(self.last_key.take());
        if self.cursor.as_ref() == Some(&next) || !self.cursors.insert(self.hasher.hash_one(&next)) {
            return Err(Failure::other("the PDS gave the same cursor again"));
        }
        self.cursor = Some(next);
        if self.pages >= MAX_PAGES {
            return Err(Failure::other(format!("the PDS's list has no end: {MAX_PAGES} pages were read")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::page::ListedRecord;
    use super::*;
    use crate::indexing::{Claim, ClaimedRecord};

    fn listing() -> Listing {
        Listing::new(Nsid::try_from("com.example.note").unwrap())
    }

    fn page(names: &[&str], next: Option<&str>) -> ListedPage {
        let record = |name: &&str| ListedRecord {
            rkey: RecordKey::try_from(*name).unwrap(),
            record: ClaimedRecord { text: Bytes::new(), claim: Claim::None },
        };
        let records = names.iter().map(record).collect();
        ListedPage { records, next: next.map(str::to_owned), ..ListedPage::default() }
    }

    fn advance(list: &mut Listing, page: ListedPage) -> Result<(), Failure> {
        let (end, records) = (page.records.last().map(|record| record.rkey.clone()), page.records.len());
        list.advance(end, page.next, records as i64)
    }

    /// Takes a page and goes on after it.
    fn take(list: &mut Listing, names: &[&str], next: Option<&str>) -> Option<KeyRange> {
        let range = list.take_page(&page(names, next)).unwrap();
        advance(list, page(names, next)).unwrap();
        range
    }

    /// The listing from its stored position.
    fn again(list: &Listing) -> Listing {
        Listing::at(list.collection.clone(), list.position())
    }

    fn range(below: Option<&str>, from: Option<&str>) -> KeyRange {
        let key = |name: Option<&str>| name.map(|name| RecordKey::try_from(name).unwrap());
        KeyRange { below: key(below), from: key(from) }
    }

    #[test]
    fn ordered_pages_prove_the_range_from_the_page_before_to_their_last_key() {
        let mut list = listing();
        assert_eq!(take(&mut list, &["i", "h", "g"], Some("1")), Some(range(None, Some("g"))));
        // A stored position goes on where it was.
        let mut list = again(&list);
        assert_eq!((list.cursor(), list.records), (Some("1"), 3));
        assert_eq!(take(&mut list, &["e"], Some("2")), Some(range(Some("g"), Some("e"))));
        assert_eq!(take(&mut list, &[], None), Some(range(Some("e"), None)));
        assert!(list.is_done && list.is_ordered());
        assert_eq!(take(&mut listing(), &[], None), Some(range(None, None)), "no records at all");
    }

    #[test]
    fn what_was_left_out_or_not_removed_is_read_again() {
        let begun = || {
            let mut list = listing();
            take(&mut list, &["e"], Some("1"));
            list
        };
        assert!(!listing().can_be_continued() && begun().can_be_continued());
        let mut list = begun();
        list.left_out.add("at://a", "it is large");
        assert!(!list.can_be_continued());
        let mut list = begun();
        list.absent.push((RecordKey::try_from("f").unwrap(), Tid::try_from("3jzfcijpj2z2a").unwrap()));
        assert!(!list.can_be_continued());
    }

    #[test]
    fn a_list_is_long_when_a_full_page_has_a_cursor() {
        for (records, next, expected) in [(100, Some("1"), true), (99, Some("1"), false), (100, None, false)]
        {
            let mut list = listing();
            assert!(list.is_new() && !list.is_long());
            let page = page(&["a"], next);
            list.take_page(&page).unwrap();
            list.advance(page.records.first().map(|record| record.rkey.clone()), page.next, records).unwrap();
            assert_eq!((list.is_long(), list.is_new()), (expected, false), "{records} {next:?}");
            let stored = again(&list);
            assert_eq!((stored.is_long(), stored.last_key()), (expected, list.last_key()));
        }
    }

    #[test]
    fn nothing_is_concluded_from_disorder_or_an_open_end() {
        for (names, strays) in [(&["a", "b"][..], 0), (&["b", "b"], 0), (&["b", "a"], 1)] {
            let mut list = listing();
            let mut page = page(names, None);
            (0..strays).for_each(|_| page.strays.add("at://other", "it is listed"));
            assert_eq!(list.take_page(&page), Ok(None), "{names:?}");
            assert!(!list.is_ordered());
        }
        let mut list = listing();
        take(&mut list, &["e", "d"], Some("1"));
        assert_eq!(take(&mut list, &["d", "c"], None), None, "the second page is not below the first one");
        assert_eq!(take(&mut listing(), &[], Some("1")), None, "a cursor without records");
    }

    #[test]
    fn a_page_without_usable_records_is_not_the_end() {
        let mut list = listing();
        take(&mut list, &["e"], Some("1"));
        let mut unusable = page(&[], Some("2"));
        unusable.strays.add("at://other", "it is listed");
        assert_eq!(list.take_page(&unusable), Ok(None));
        advance(&mut list, unusable).unwrap();
        assert_eq!((list.is_done, list.cursor(), list.is_ordered()), (false, Some("2"), false));
        assert_eq!(list.position().last_rkey.as_deref(), Some("e"));
        let mut list = listing();
        take(&mut list, &["e"], Some("1"));
        assert_eq!(take(&mut list, &[], Some("2")), None, "no entries");
        assert_eq!((list.is_done, list.cursor(), list.is_ordered()), (false, Some("2"), true));
        assert_eq!(take(&mut list, &["c"], None), Some(range(Some("e"), None)), "no gap");
        assert!(list.is_done);
    }

    #[test]
    fn a_list_that_lacks_an_existing_record_proves_nothing() {
        let mut list = listing();
        take(&mut list, &["e", "d"], Some("1"));
        list.disprove();
        let stored = again(&list);
        for mut list in [list, stored] {
            assert_eq!(take(&mut list, &["c"], None), None);
        }
    }

    #[test]
    fn lists_without_an_end_are_noticed() {
        let mut list = listing();
        take(&mut list, &["a", "b"], Some("1"));
        let error = list.take_page(&page(&["a", "b"], Some("2"))).unwrap_err();
        assert_eq!(error.text, "the PDS lists the same records again");
        for cursors in [&["1", "1"][..], &["1", "2", "1"]] {
            let mut list = listing();
            let mut ends = ["z", "y", "x"].iter().zip(cursors).map(|(name, cursor)| {
                list.take_page(&page(&[name], Some(cursor))).unwrap();
                advance(&mut list, page(&[name], Some(cursor)))
            });
            assert_eq!(ends.find_map(Result::err).unwrap().text, "the PDS gave the same cursor again");
        }
        let mut list = listing();
        let end = (0..=u64::from(MAX_PAGES)).rev().find_map(|n| {
            let page = page(&[&format!("{n:08}")], Some(&n.to_string()));
            assert!(list.take_page(&page).unwrap().is_some());
            advance(&mut list, page).err()
        });
        assert!(end.unwrap().text.contains("has no end"));
        assert_eq!(list.pages(), MAX_PAGES);
    }

    #[test]
    fn a_list_without_limit_and_order_ends_before_it_fills_the_memory() {
        let (mut list, per_page) = (listing(), 40_000);
        let failed = (0..=MAX_UNORDERED_KEYS / per_page).find_map(|n| {
            let names: Vec<_> = (0..per_page).map(|key| format!("{:08}", n * per_page + key)).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let page = page(&names, Some(&n.to_string()));
            list.take_page(&page).and_then(|_| advance(&mut list, page)).err()
        });
        assert_eq!(failed.unwrap().text, "the PDS lists more than 1000000 records without an order");
        assert!(!list.is_done);
    }
}
