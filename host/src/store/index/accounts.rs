//! Combines the account changes of a batch into one outcome per account.

use std::collections::HashMap;

use crate::atproto::Did;

use super::{AccountChange, AccountStatus};

/// The account changes of a batch, per DID.
#[derive(Debug, Default)]
pub(super) struct Accounts<'a>(HashMap<&'a Did, Outcome>);

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The last status in the batch.
    status: AccountStatus,
    /// Whether the account was deleted at any point in the batch.
    purge: bool,
}

impl<'a> Accounts<'a> {
    pub(super) fn of(changes: &'a [AccountChange]) -> Self {
        let mut outcomes: HashMap<&Did, Outcome> = HashMap::new();
        for AccountChange { did, status } in changes {
            let purge =
                *status == AccountStatus::Deleted || outcomes.get(did).is_some_and(|outcome| outcome.purge);
            outcomes.insert(did, Outcome { status: *status, purge });
        }
        Self(outcomes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the account is deleted at the end of the batch.
    pub(super) fn ends_deleted(&self, did: &Did) -> bool {
        self.0.get(did).is_some_and(|outcome| outcome.status == AccountStatus::Deleted)
    }

    /// DIDs and their new statuses, sorted by DID: all hosts lock rows in this order.
    pub(super) fn statuses(&self) -> (Vec<&'a str>, Vec<i16>) {
        let mut pairs: Vec<_> =
            self.0.iter().map(|(did, outcome)| (did.as_str(), outcome.status as i16)).collect();
        pairs.sort_unstable();
        pairs.into_iter().unzip()
    }

    /// The new statuses of the accounts with these DIDs.
    pub(super) fn changed(&self, dids: &[String]) -> Vec<AccountChange> {
        let change = |did: &String| {
            let (did, outcome) = self.0.get_key_value(&Did::try_from(did.as_str()).ok()?)?;
            Some(AccountChange { did: (*did).clone(), status: outcome.status })
        };
        dids.iter().filter_map(change).collect()
    }

    pub(super) fn purged(&self) -> Vec<&'a str> {
        let mut dids: Vec<_> =
            self.0.iter().filter(|(_, outcome)| outcome.purge).map(|(did, _)| did.as_str()).collect();
        dids.sort_unstable();
        dids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_status_wins_and_any_deletion_purges() {
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
        assert_eq!(accounts.changed(&["did:plc:2".into(), "did:plc:9".into()]), [changes[1].clone()]);
        assert!(!accounts.ends_deleted(&did(1)) && accounts.ends_deleted(&did(3)));
    }
}
