//! Computes the collection filters of a subscription. A server accepts at most 100; above that, collections are folded
//! into wildcards (`app.example.*`), and events of other collections that these match are dropped at the filter stage.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexicons::{Followed, PUBLISHED_LEXICONS};

/// Jetstream's limit on `wantedCollections`.
const MAX_FILTERS: usize = 100;

/// A wildcard keeps at least this many segments: `app.example.*`, not `app.*`, which would match nearly everything.
const MIN_SEGMENTS: usize = 2;

/// The filters to send. Empty means "no filter": all events are received and filtered here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted(Vec<String>);

impl Wanted {
    /// `None` when nothing is followed, so that no connection is needed. Published lexicons are always included: then
    /// adding the first lexicon of the network does not interrupt the stream.
    pub(super) fn plan(followed: &Followed) -> Option<Self> {
        if followed.is_nothing() {
            return None;
        }
        let mut filters: BTreeSet<String> =
            followed.collections.iter().map(|nsid| nsid.as_str().to_owned()).collect();
        filters.insert(PUBLISHED_LEXICONS.to_owned());
        while filters.len() > MAX_FILTERS {
            if !fold(&mut filters) {
                filters.clear();
            }
        }
        Some(Self(filters.into_iter().collect()))
    }

    pub(super) fn filters(&self) -> &[String] {
        &self.0
    }
}

/// Replaces the filters of one group with their common wildcard: the most specific group, of several the largest.
/// `false` when no group has two members.
fn fold(filters: &mut BTreeSet<String>) -> bool {
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for filter in filters.iter() {
        if let Some(parent) = parent(filter) {
            *groups.entry(parent).or_default() += 1;
        }
    }
    let best = groups
        .into_iter()
        .filter(|(_, members)| *members > 1)
        .max_by_key(|(parent, members)| (parent.matches('.').count(), *members));
    let Some((best, _)) = best else { return false };
    let prefix = format!("{best}.");
    filters.retain(|filter| !filter.starts_with(&prefix));
    filters.insert(format!("{prefix}*"));
    true
}

/// The group of a filter: `a.b` for both `a.b.c` and `a.b.c.*`. `None` when it would be too short for a wildcard.
fn parent(filter: &str) -> Option<&str> {
    let name = filter.strip_suffix(".*").unwrap_or(filter);
    let (parent, _) = name.rsplit_once('.')?;
    (parent.matches('.').count() + 1 >= MIN_SEGMENTS).then_some(parent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::Arc;

    use super::*;
    use belvedere_protocol::atproto::Nsid;

    fn nsids(names: impl IntoIterator<Item = String>) -> Followed {
        let nsids: Arc<[Nsid]> = names.into_iter().map(|n| Nsid::try_from(n.as_str()).unwrap()).collect();
        nsids.into()
    }

    fn covers(wanted: &Wanted, name: &str) -> bool {
        wanted.0.is_empty()
            || wanted.0.iter().any(|f| f == name || f.strip_suffix('*').is_some_and(|p| name.starts_with(p)))
    }

    #[test]
    fn up_to_a_hundred_are_named_and_the_lexicon_schema_always() {
        assert_eq!(Wanted::plan(&Followed::default()), None);
        let only_lexicons = Followed { published_lexicons: true, ..Followed::default() };
        assert_eq!(Wanted::plan(&only_lexicons).unwrap().filters(), [PUBLISHED_LEXICONS]);
        let wanted = Wanted::plan(&nsids((0..99).map(|i| format!("app.example.c{i}")))).unwrap();
        assert_eq!(wanted.0.len(), 100);
        assert!(wanted.0.iter().any(|f| f == PUBLISHED_LEXICONS));
        assert!(wanted.0.iter().all(|f| !f.ends_with('*')));
    }

    #[test]
    fn above_that_the_most_specific_groups_are_folded_first() {
        let mut names: Vec<String> = (0..60).map(|i| format!("app.big.feed.c{i}")).collect();
        names.extend((0..50).map(|i| format!("app.small{i}.note")));
        let wanted = Wanted::plan(&nsids(names)).unwrap();
        assert_eq!(wanted.0.len(), 52);
        assert!(wanted.0.iter().any(|f| f == "app.big.feed.*"));
        assert!(wanted.0.iter().any(|f| f == "app.small7.note"), "others stay exact");
    }

    #[test]
    fn many_unrelated_authorities_end_without_a_filter() {
        let wanted = Wanted::plan(&nsids((0..500).map(|i| format!("app.a{i}.note")))).unwrap();
        assert!(wanted.filters().is_empty());
    }

    proptest! {
        #[test]
        fn every_tracked_collection_is_covered(
            names in proptest::collection::btree_set("[a-c]{1,2}\\.[a-e]{1,2}(\\.[a-e]{1,3}){1,3}", 1..400)
        ) {
            let wanted = Wanted::plan(&nsids(names.iter().cloned())).unwrap();
            prop_assert!(wanted.0.len() <= MAX_FILTERS);
            for name in &names {
                prop_assert!(covers(&wanted, name), "{} not in {:?}", name, wanted);
            }
            prop_assert!(covers(&wanted, PUBLISHED_LEXICONS));
        }
    }
}
