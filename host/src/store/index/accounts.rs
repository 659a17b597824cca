//! Accounts that come and go.

use std::collections::HashMap;

use crate::atproto::Did;

use super::{AccountChange, AccountStatus};

/// The account changes of a batch, per DID.
#[derive(Debug, Default)]
pub(super) struct Accounts<'a>(HashMap<&'a Did, Fate>);

#[derive(Clone, Copy, Debug)]
struct Fate {
    /// The last word.
    status: AccountStatus,
    /// Whether it was deleted on the way there.
    purge: bool,
}

impl<'a> Accounts<'a> {
    pub(super) fn of(changes: &'a [AccountChange]) -> Self {
        let mut fates: HashMap<&Did, Fate> = HashMap::new();
        for AccountChange { did, status } in changes {
            let purge = *status == AccountStatus::Deleted || fates.get(did).is_some_and(|fate| fate.purge);
            fates.insert(did, Fate { status: *status, purge });
        }
        Self(fates)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the account is gone at the end of the batch.
    pub(super) fn ends_deleted(&self, did: &Did) -> bool {
        self.0.get(did).is_some_and(|fate| fate.status == AccountStatus::Deleted)
    }

    /// DIDs and their new status, by DID: one order for every writer.
    pub(super) fn statuses(&self) -> (Vec<&'a str>, Vec<i16>) {
        let mut pairs: Vec<_> = self.0.iter().map(|(did, fate)| (did.as_str(), fate.status as i16)).collect();
        pairs.sort_unstable();
        pairs.into_iter().unzip()
    }

    pub(super) fn purged(&self) -> Vec<&'a str> {
        let mut dids: Vec<_> =
            self.0.iter().filter(|(_, fate)| fate.purge).map(|(did, _)| did.as_str()).collect();
        dids.sort_unstable();
        dids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_a_deletion_is_remembered() {
        let did = |n: u8| Did::try_from(format!("did:plc:{n}").as_str()).unwrap();
        let change = |n, status| AccountChange { did: did(n), status };
        let changes = [
            change(1, AccountStatus::Deleted),
            change(2, AccountStatus::Deactivated),
            change(1, AccountStatus::Active),
            change(3, AccountStatus::Deleted),
        ];
        let accounts = Accounts::of(&changes);
        assert_eq!(accounts.statuses(), (vec!["did:plc:1", "did:plc:2", "did:plc:3"], vec![0, 1, 4]));
        assert_eq!(accounts.purged(), ["did:plc:1", "did:plc:3"]);
        assert!(!accounts.ends_deleted(&did(1)) && accounts.ends_deleted(&did(3)));
    }
}
