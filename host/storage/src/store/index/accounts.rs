//! Combines the account changes of a batch into one outcome per account.

use std::collections::HashMap;

use belvedere_protocol::atproto::{Did, Tid};

use super::{AccountChange, AccountStatus};

/// The account changes of a batch, per DID.
#[derive(Debug, Default)]
pub(super) struct Accounts<'a>(HashMap<&'a Did, Outcome>);

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The last status in the batch.
    status: AccountStatus,
    /// Its rev.
    rev: Tid,
    /// The rev of the last deletion in the batch.
    deleted: Option<Tid>,
}

impl<'a> Accounts<'a> {
    pub(super) fn of(changes: &'a [AccountChange]) -> Self {
        let mut outcomes: HashMap<&Did, Outcome> = HashMap::new();
        for AccountChange { did, status, rev } in changes {
            let deletion = (*status == AccountStatus::Deleted).then_some(*rev);
            let deleted = outcomes.get(did).and_then(|outcome| outcome.deleted).max(deletion);
            outcomes.insert(did, Outcome { status: *status, rev: *rev, deleted });
        }
        Self(outcomes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
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
            Some(AccountChange { did: (*did).clone(), status: outcome.status, rev: outcome.rev })
        };
        dids.iter().filter_map(change).collect()
    }

    /// DIDs of deleted accounts and the revs up to which they are deleted, sorted by DID.
    pub(super) fn deleted(&self) -> (Vec<&'a str>, Vec<i64>) {
        let deleted = |(did, outcome): (&&'a Did, &Outcome)| {
            // The top bit of a TID is zero.
            Some((did.as_str(), outcome.deleted?.as_u64() as i64))
        };
        let mut pairs: Vec<_> = self.0.iter().filter_map(deleted).collect();
        pairs.sort_unstable();
        pairs.into_iter().unzip()
    }

    pub(super) fn dids(&self) -> impl Iterator<Item = &'a Did> {
        self.0.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_status_wins_and_the_last_deletion_purges() {
        let did = |n: u8| Did::try_from(format!("did:plc:{n}").as_str()).unwrap();
        let change = |n, status, rev| AccountChange { did: did(n), status, rev: Tid::new(rev, 0).unwrap() };
        let changes = [
            change(1, AccountStatus::Deleted, 1),
            change(2, AccountStatus::Deactivated, 2),
            change(1, AccountStatus::Deleted, 3),
            change(1, AccountStatus::Deleted, 2),
            change(1, AccountStatus::Active, 4),
            change(3, AccountStatus::Deleted, 5),
        ];
        let accounts = Accounts::of(&changes);
        assert_eq!(accounts.statuses(), (vec!["did:plc:1", "did:plc:2", "did:plc:3"], vec![0, 1, 4]));
        assert_eq!(accounts.deleted(), (vec!["did:plc:1", "did:plc:3"], vec![3 << 10, 5 << 10]));
        assert_eq!(accounts.changed(&["did:plc:2".into(), "did:plc:9".into()]), [changes[1].clone()]);
    }
}
