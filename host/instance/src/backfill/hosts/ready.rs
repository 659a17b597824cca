//! The order in which hosts begin.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Every so many turns, the host that waits longest begins, so that large hosts don't keep a small one waiting for hours.
const TURNS_BY_AGE: u64 = 4;

/// Hosts that can begin. Those with the most work are first: a job ends when its last host does.
#[derive(Debug, Default)]
pub(super) struct ReadyHosts {
    /// The work and the age of each.
    known: HashMap<Arc<str>, (usize, u64)>,
    by_work: BTreeSet<(Reverse<usize>, u64, Arc<str>)>,
    by_age: BTreeMap<u64, Arc<str>>,
    last_age: u64,
    turns: u64,
}

impl ReadyHosts {
    /// Adds a host, or changes how much work it has.
    pub(super) fn set(&mut self, name: &Arc<str>, work: usize) {
        let age = if let Some((old, age)) = self.known.get(name) {
            self.by_work.remove(&(Reverse(*old), *age, Arc::clone(name)));
            *age
        } else {
            self.last_age += 1;
            self.by_age.insert(self.last_age, Arc::clone(name));
            self.last_age
        };
        self.known.insert(Arc::clone(name), (work, age));
        self.by_work.insert((Reverse(work), age, Arc::clone(name)));
    }

    /// Takes the next host.
    pub(super) fn pop(&mut self) -> Option<Arc<str>> {
        self.turns += 1;
        let name = if self.turns.is_multiple_of(TURNS_BY_AGE) {
            self.by_age.first_key_value()?.1
        } else {
            &self.by_work.first()?.2
        };
        let name = Arc::clone(name);
        let (work, age) = self.known.remove(&name)?;
        self.by_work.remove(&(Reverse(work), age, Arc::clone(&name)));
        self.by_age.remove(&age);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_more_work_begin_first_and_none_waits_for_ever() {
        let mut ready = ReadyHosts::default();
        ready.set(&"small".into(), 1);
        for n in 0..20 {
            ready.set(&format!("large {n}").into(), 10);
        }
        ready.set(&"large 7".into(), 11);
        let order: Vec<_> = std::iter::from_fn(|| ready.pop()).map(|name| name.to_string()).collect();
        assert_eq!(&order[..4], ["large 7", "large 0", "large 1", "small"]);
        assert_eq!(order.len(), 21);
        assert!(ready.known.is_empty() && ready.by_work.is_empty() && ready.by_age.is_empty());
    }
}
