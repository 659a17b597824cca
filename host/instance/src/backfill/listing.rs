//! Follows the list of a collection's records through its pages, and decides what the pages prove.
//!
//! A PDS lists records by descending record key. While the pages are in that order, a key between two keys of a page
//! that is not on the page does not exist upstream. Nothing is concluded from a list in another order, or from an
//! incomplete one. Only a missing cursor ends a list: a page without records may be followed by others.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use super::failure::Failure;
use super::request::PAGE_RECORDS;
use belvedere_protocol::atproto::{Nsid, RecordKey};
use belvedere_storage::store::backfill::{CollectionPosition, KeyRange};
use belvedere_storage::store::index::Delete;

/// Pages of one collection of one repo, which are five million records if the PDS gives the pages that it is asked for. A
/// list without an end is given up there.
const MAX_PAGES: u32 = 50_000;

/// Record keys that are remembered of a list without order, some twenty megabytes: a PDS that ignores `limit` can put
/// tens of thousands on a page. Lists in order have no such limit, since they need no memory.
const MAX_UNORDERED_KEYS: usize = 1_000_000;

/// Absent records that are kept until the end of a list proves that it was in order. Beyond it, they are removed before.
pub(super) const MAX_ABSENT: usize = 10_000;

/// How far the records of a collection of a repo were read.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) collection: Nsid,
    cursor: Option<String>,
    last_key: Option<RecordKey>,
    /// The URI of the record with the lowest key, if the PDS has proved it.
    pub(super) lowest: Option<String>,
    /// Records of the index that the pages so far lack. They stay until the PDS denies each of them.
    pub(super) absent: Vec<Delete>,
    /// Those of them that the PDS has denied.
    pub(super) denied: i64,
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

/// How a page ended.
#[derive(Debug, Default)]
pub(super) struct PageEnd<'a> {
    /// Its last valid record key.
    pub(super) last: Option<&'a RecordKey>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
    /// Valid records.
    pub(super) records: i64,
}

/// What a page proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof<'a> {
    /// In this range, the keys of the page are all that exist.
    Complete(KeyRange<'a>),
    /// The page has no records, and more pages may follow.
    Open,
    /// The keys of the page exist; there may be more anywhere.
    Nothing,
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

    /// Takes the keys of a page. `is_clean`: the page had nothing but valid records of this collection.
    ///
    /// # Errors
    /// When the page has no new key: the list repeats itself. When a list without order has too many keys.
    pub(super) fn take_page<'a>(
        &'a mut self,
        keys: &'a [RecordKey],
        is_clean: bool,
        next: Option<&str>,
    ) -> Result<Proof<'a>, Failure> {
        self.pages += 1;
        let before = self.last_key.as_ref().map(RecordKey::as_str);
        let highest = before.into_iter().chain(keys.iter().map(RecordKey::as_str));
        let mut follows = highest.zip(keys.iter().skip(usize::from(before.is_none())));
        let descends = follows.all(|(higher, lower)| higher > lower.as_str());
        self.is_ordered = self.is_ordered && is_clean && descends;
        if !self.is_ordered {
            let mut new = 0;
            for key in keys {
                new += usize::from(self.keys.insert(self.hasher.hash_one(key.as_str())));
            }
            if new == 0 && !keys.is_empty() {
                return Err(Failure::other("the PDS lists the same records again"));
            }
            if self.keys.len() > MAX_UNORDERED_KEYS {
                return Err(Failure::other(format!(
                    "the PDS lists more than {MAX_UNORDERED_KEYS} records without an order"
                )));
            }
            return Ok(Proof::Nothing);
        }
        let from = match (next, keys.last()) {
            (None, _) => None,
            (Some(_), Some(last)) => Some(last.as_str()),
            (Some(_), None) => return Ok(Proof::Open),
        };
        Ok(Proof::Complete(KeyRange { below: before, from }))
    }

    /// Goes on to the next page, after the records of this one were committed. A page without a cursor is the last one.
    ///
    /// # Errors
    /// When the list does not end.
    pub(super) fn advance(&mut self, page: PageEnd<'_>) -> Result<(), Failure> {
        let PageEnd { last, next, records } = page;
        self.records += records;
        let Some(next) = next else {
            self.is_done = true;
            return Ok(());
        };
        self.last_key = last.cloned().or(self.last_key.take());
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
    use super::*;

    fn listing() -> Listing {
        Listing::new(Nsid::try_from("com.example.note").unwrap())
    }

    fn keys(names: &[&str]) -> Vec<RecordKey> {
        names.iter().map(|name| RecordKey::try_from(*name).unwrap()).collect()
    }

    fn end<'a>(keys: &'a [RecordKey], next: Option<&str>) -> PageEnd<'a> {
        PageEnd { last: keys.last(), next: next.map(str::to_owned), records: keys.len() as i64 }
    }

    fn complete<'a>(below: Option<&'a str>, from: Option<&'a str>) -> Proof<'a> {
        Proof::Complete(KeyRange { below, from })
    }

    #[test]
    fn ordered_pages_prove_the_range_from_the_page_before_to_their_last_key() {
        let mut list = listing();
        let first = keys(&["i", "h", "g"]);
        assert_eq!(list.take_page(&first, true, Some("1")), Ok(complete(None, Some("g"))));
        list.advance(end(&first, Some("1"))).unwrap();
        let second = keys(&["e"]);
        // A stored position goes on where it was.
        let mut list = Listing::at(list.collection.clone(), list.position());
        assert_eq!((list.cursor(), list.records), (Some("1"), 3));
        assert_eq!(list.take_page(&second, true, Some("2")), Ok(complete(Some("g"), Some("e"))));
        list.advance(end(&second, Some("2"))).unwrap();
        assert_eq!(list.take_page(&[], true, None), Ok(complete(Some("e"), None)));
        list.advance(PageEnd::default()).unwrap();
        assert!(list.is_done && list.is_ordered());
        assert_eq!(listing().take_page(&[], true, None), Ok(complete(None, None)), "no records at all");
    }

    #[test]
    fn a_list_is_long_when_a_full_page_has_a_cursor() {
        for (records, next, expected) in [(100, Some("1"), true), (99, Some("1"), false), (100, None, false)]
        {
            let mut list = listing();
            assert!(list.is_new() && !list.is_long());
            let page = keys(&["a"]);
            list.take_page(&page, true, next).unwrap();
            let next = next.map(str::to_owned);
            list.advance(PageEnd { last: page.last(), next: next.clone(), records }).unwrap();
            assert_eq!((list.is_long(), list.is_new()), (expected, false), "{records} {next:?}");
            let stored = Listing::at(list.collection.clone(), list.position());
            assert_eq!((stored.is_long(), stored.last_key()), (expected, list.last_key()));
        }
    }

    #[test]
    fn nothing_is_concluded_from_disorder_or_an_open_end() {
        for (names, is_clean) in [(&["a", "b"][..], true), (&["b", "b"], true), (&["b", "a"], false)] {
            let mut list = listing();
            assert_eq!(list.take_page(&keys(names), is_clean, None), Ok(Proof::Nothing), "{names:?}");
            assert!(!list.is_ordered());
        }
        let mut list = listing();
        let first = keys(&["e", "d"]);
        list.take_page(&first, true, Some("1")).unwrap();
        list.advance(end(&first, Some("1"))).unwrap();
        // The second page is not below the first one.
        assert_eq!(list.take_page(&keys(&["d", "c"]), true, None), Ok(Proof::Nothing));
        assert_eq!(listing().take_page(&[], true, Some("1")), Ok(Proof::Open), "a cursor without records");
    }

    #[test]
    fn a_page_without_usable_records_is_not_the_end() {
        let mut list = listing();
        let first = keys(&["e"]);
        list.take_page(&first, true, Some("1")).unwrap();
        list.advance(end(&first, Some("1"))).unwrap();
        assert_eq!(list.take_page(&[], false, Some("2")), Ok(Proof::Nothing));
        list.advance(end(&[], Some("2"))).unwrap();
        assert_eq!((list.is_done, list.cursor(), list.is_ordered()), (false, Some("2"), false));
        assert_eq!(list.position().last_rkey.as_deref(), Some("e"));
        let mut list = listing();
        list.take_page(&first, true, Some("1")).unwrap();
        list.advance(end(&first, Some("1"))).unwrap();
        assert_eq!(list.take_page(&[], true, Some("2")), Ok(Proof::Open), "no entries");
        list.advance(end(&[], Some("2"))).unwrap();
        assert_eq!((list.is_done, list.cursor(), list.is_ordered()), (false, Some("2"), true));
        let second = keys(&["c"]);
        assert_eq!(list.take_page(&second, true, None), Ok(complete(Some("e"), None)), "no gap");
        list.advance(end(&second, None)).unwrap();
        assert!(list.is_done);
    }

    #[test]
    fn a_list_that_lacks_an_existing_record_proves_nothing() {
        let mut list = listing();
        let first = keys(&["e", "d"]);
        list.take_page(&first, true, Some("1")).unwrap();
        list.advance(end(&first, Some("1"))).unwrap();
        list.disprove();
        let stored = Listing::at(list.collection.clone(), list.position());
        for mut list in [list, stored] {
            assert_eq!(list.take_page(&keys(&["c"]), true, None), Ok(Proof::Nothing));
        }
    }

    #[test]
    fn lists_without_an_end_are_noticed() {
        let mut list = listing();
        let page = keys(&["a", "b"]);
        list.take_page(&page, true, Some("1")).unwrap();
        list.advance(end(&page, Some("1"))).unwrap();
        let error = list.take_page(&page, true, Some("2")).unwrap_err();
        assert_eq!(error.text, "the PDS lists the same records again");
        for cursors in [&["1", "1"][..], &["1", "2", "1"]] {
            let mut list = listing();
            let names = ["z", "y", "x"];
            let mut ends = names.iter().zip(cursors).map(|(name, cursor)| {
                let page = keys(&[name]);
                list.take_page(&page, true, Some(cursor)).unwrap();
                list.advance(end(&page, Some(cursor)))
            });
            assert_eq!(ends.find_map(Result::err).unwrap().text, "the PDS gave the same cursor again");
        }
        let mut list = listing();
        let end = (0..=u64::from(MAX_PAGES)).rev().find_map(|n| {
            let page = keys(&[&format!("{n:08}")]);
            assert!(matches!(list.take_page(&page, true, Some("x")), Ok(Proof::Complete(_))));
            list.advance(end(&page, Some(&n.to_string()))).err()
        });
        assert!(end.unwrap().text.contains("has no end"));
        assert_eq!(list.pages(), MAX_PAGES);
    }

    #[test]
    fn a_list_without_limit_and_order_ends_before_it_fills_the_memory() {
        let (mut list, per_page) = (listing(), 40_000);
        let failed = (0..=MAX_UNORDERED_KEYS / per_page).find_map(|n| {
            let page: Vec<_> = (0..per_page).map(|key| format!("{:08}", n * per_page + key)).collect();
            let page = keys(&page.iter().map(String::as_str).collect::<Vec<_>>());
            let taken = list.take_page(&page, true, Some("x")).map(drop);
            taken.and_then(|()| list.advance(end(&page, Some(&n.to_string())))).err()
        });
        assert_eq!(failed.unwrap().text, "the PDS lists more than 1000000 records without an order");
        assert!(!list.is_done);
    }
}
