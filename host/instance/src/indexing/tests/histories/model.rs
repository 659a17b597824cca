//! The expected content of the index after the deliveries of a history: a map, and four rules.

use std::collections::BTreeMap;

use super::history::{Delivery, Event};
use belvedere_storage::store::index::AccountStatus;

#[derive(Debug)]
pub(super) struct Model {
    /// By record key: the rev of the last change and the value, if the record was not deleted.
    records: BTreeMap<u8, (u64, Option<u64>)>,
    /// The time of the last deletion of the account.
    deleted: u64,
    pub status: AccountStatus,
    /// Whether the repo must be read again.
    pub is_marked: bool,
}

impl Model {
    pub(super) fn after(deliveries: &[Delivery]) -> Self {
        let status = AccountStatus::Active;
        let mut model = Self { records: BTreeMap::new(), deleted: 0, status, is_marked: false };
        for delivery in deliveries {
            model.take(delivery);
        }
        model
    }

    fn take(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::Event(Event::Put { key, rev, value }) => self.change(*key, *rev, Some(*value)),
            Delivery::Event(Event::Delete { key, rev }) => self.change(*key, *rev, None),
            Delivery::Event(Event::Account { status, at }) => {
                if *status == AccountStatus::Deleted {
                    self.deleted = self.deleted.max(*at);
                    self.records.retain(|_, (rev, _)| *rev > self.deleted);
                    self.is_marked = false;
                } else if *status == AccountStatus::Active && self.status != AccountStatus::Active {
                    self.is_marked = true;
                }
                self.status = *status;
            }
            Delivery::Event(Event::Identity) => {}
            Delivery::Event(Event::Sync { .. }) => {
                self.is_marked |= self.status != AccountStatus::Deleted;
            }
            Delivery::Page(page) => {
                for (key, value) in &page.records {
                    // A record that is already as on the page keeps its rev.
                    if self.records.get(key).is_none_or(|(_, known)| *known != Some(*value)) {
                        self.change(*key, page.rev, Some(*value));
                    }
                }
                let gone: Vec<u8> =
                    self.records.keys().filter(|key| !page.records.contains_key(key)).copied().collect();
                for key in gone {
                    self.change(key, page.rev, None);
                }
            }
        }
    }

    fn change(&mut self, key: u8, rev: u64, value: Option<u64>) {
        if rev > self.deleted && self.records.get(&key).is_none_or(|(known, _)| rev > *known) {
            self.records.insert(key, (rev, value));
        }
    }

    /// The rows of the index: values by record key.
    pub(super) fn rows(&self) -> BTreeMap<u8, u64> {
        self.records.iter().filter_map(|(key, (_, value))| Some((*key, (*value)?))).collect()
    }
}
