//! Filters events: those of tracked collections, of accounts and of whole repos, owned and with valid identifiers. Their
//! records are not parsed yet.

use bytes::Bytes;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid, rev};
use belvedere_storage::store::index::{AccountChange, AccountStatus, Change};

use super::change::{Claim, ClaimedRecord, IndexChange};
use super::frame::{Account, Commit, Event, EventKind};
use super::scripts::{RecordAction, RecordEvent};
use super::tally::DropReason;

/// Maximum by which our clock may be behind. An event of a later time is taken as one of the present.
const MAX_CLOCK_ERROR_US: i64 = 24 * 3_600 * 1_000_000;

/// Maximum difference of the account's server and the Jetstream server about the time of an event. Beyond it, a clock
/// is wrong or the time was made up.
const MAX_EVENT_DELAY_US: u64 = 60 * 60 * 1_000_000;

/// Filters one event. `tracked` must be sorted; events of other collections are dropped before anything is copied. `now`
/// is our clock's time. A clock that is behind drops no commit and forgets no deletion: the event's own time counts too.
/// An event of an identity changes nothing in the index.
///
/// # Errors
/// The reason why the event was dropped.
pub(super) fn filter(
    event: &Event<'_>,
    tracked: &[Nsid],
    now: Timestamp,
) -> Result<IndexChange<ClaimedRecord>, DropReason> {
    let is_believed = event.time_us <= now.0.saturating_add(MAX_CLOCK_ERROR_US);
    let received = if is_believed { Timestamp(event.time_us) } else { now };
    let did = || Did::try_from(&*event.did).map_err(|_| DropReason::BadDid);
    match &event.kind {
        EventKind::Commit(commit) => {
            let found = tracked.binary_search_by(|nsid| nsid.as_str().cmp(&commit.collection));
            let collection = &tracked[found.map_err(|_| DropReason::Untracked)?];
            open_commit(did()?, collection.clone(), commit, now.max(received))
        }
        EventKind::Sync => Ok(IndexChange::Repair(did()?)),
        EventKind::Account(account) => {
            let rev = account_rev(account, received).ok_or(DropReason::BadTime)?;
            Ok(IndexChange::Account(AccountChange { did: did()?, status: account_status(account), rev }))
        }
        EventKind::Identity | EventKind::Other => Err(DropReason::Unknown),
    }
}

fn open_commit(
    did: Did,
    collection: Nsid,
    commit: &Commit<'_>,
    now: Timestamp,
) -> Result<IndexChange<ClaimedRecord>, DropReason> {
    let rkey = RecordKey::try_from(&*commit.rkey).map_err(|_| DropReason::BadRkey)?;
    let rev = Tid::try_from(&*commit.rev).map_err(|_| DropReason::BadRev)?;
    if rev::is_of_the_future(rev, now) {
        return Err(DropReason::FutureRev);
    }
    let record = match commit.action {
        RecordAction::Delete => None,
        RecordAction::Create | RecordAction::Update => Some(ClaimedRecord {
            text: Bytes::copy_from_slice(commit.record.ok_or(DropReason::NoRecord)?.as_bytes()),
            claim: commit.cid.map_or(Claim::None, Claim::parse),
        }),
    };
    let change = Change { uri: RecordUri { did, collection, rkey }, rev, record };
    Ok(IndexChange::Record(RecordEvent { action: commit.action, change }))
}

/// The highest rev of a commit before an account event. The event's time is that of the account's server, whose clock
/// made the revs of its commits too, or when that is implausible `received`, the Jetstream server's. A relay may deliver
/// the event much later, when an account that was created again has new commits already.
fn account_rev(account: &Account<'_>, received: Timestamp) -> Option<Tid> {
    let time = account.time.as_deref().and_then(|text| Timestamp::parse(text).ok());
    // Servers give milliseconds; a commit of the same millisecond was before the event.
    time.map(|time| Timestamp(time.0.saturating_add(999)))
        .filter(|time| time.0.abs_diff(received.0) <= MAX_EVENT_DELAY_US)
        .and_then(rev::highest_at)
        .filter(|rev| !rev::is_of_the_future(*rev, received))
        .or_else(|| rev::highest_at(received))
}

/// An account that is inactive for an unknown reason is hidden too, until the next event says that it is active.
fn account_status(account: &Account<'_>) -> AccountStatus {
    match account.status.as_deref() {
        _ if account.active => AccountStatus::Active,
        Some("deleted") => AccountStatus::Deleted,
        Some("takendown") => AccountStatus::TakenDown,
        Some("suspended") => AccountStatus::Suspended,
        _ => AccountStatus::Deactivated,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    fn tracked() -> Vec<Nsid> {
        ["app.example.like", "app.example.note"].into_iter().map(|n| Nsid::try_from(n).unwrap()).collect()
    }

    fn read(text: &str) -> Result<IndexChange<ClaimedRecord>, DropReason> {
        filter(&frame::parse(text.as_bytes()).unwrap().into_event().unwrap(), &tracked(), NOW)
    }

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    fn commit(did: &str, fields: &str) -> String {
        format!(r#"{{"did":"{did}","time_us":1,"kind":"commit","commit":{{{fields}}}}}"#)
    }

    const NOTE: &str = r#""collection":"app.example.note","rkey":"self","rev":"3mptbypluud2a""#;

    #[test]
    fn a_create_has_a_record_and_a_delete_needs_none() {
        let text = commit("did:plc:a", &format!(r#"{NOTE},"operation":"create","record":{{"a":1}}"#));
        let IndexChange::Record(event) = read(&text).unwrap() else { panic!() };
        let ClaimedRecord { text, claim } = event.change.record.unwrap();
        assert_eq!((&text[..], claim), (&br#"{"a":1}"#[..], Claim::None));
        let text = commit("did:plc:a", &format!(r#"{NOTE},"operation":"delete""#));
        let IndexChange::Record(event) = read(&text).unwrap() else { panic!() };
        assert_eq!((event.action, event.change.uri.did.as_str()), (RecordAction::Delete, "did:plc:a"));
        assert!(event.change.record.is_none());
    }

    #[test]
    fn each_invalid_field_has_its_reason() {
        let with = |field: &str, value: &str| NOTE.replace(field, value);
        for (did, fields, why) in [
            ("did:plc:a", with("app.example.note", "app.example.other"), DropReason::Untracked),
            ("not a did", NOTE.into(), DropReason::BadDid),
            ("did:plc:a", with("self", "a b"), DropReason::BadRkey),
            ("did:plc:a", with("self", ".."), DropReason::BadRkey),
            ("did:plc:a", with("3mptbypluud2a", "1"), DropReason::BadRev),
            ("did:plc:a", NOTE.into(), DropReason::NoRecord),
        ] {
            let text = commit(did, &format!(r#"{fields},"operation":"update""#));
            assert_eq!(read(&text).unwrap_err(), why, "{text}");
        }
        assert_eq!(read(r#"{"did":"did:plc:a","time_us":1,"kind":"?"}"#).unwrap_err(), DropReason::Unknown);
    }

    #[test]
    fn account_events_map_to_statuses() {
        for (account, status) in [
            (r#"{"active":true}"#, AccountStatus::Active),
            (r#"{"active":false,"status":"deactivated"}"#, AccountStatus::Deactivated),
            (r#"{"active":false,"status":"takendown"}"#, AccountStatus::TakenDown),
            (r#"{"active":false,"status":"suspended"}"#, AccountStatus::Suspended),
            (r#"{"active":false,"status":"deleted"}"#, AccountStatus::Deleted),
            (r#"{"active":false,"status":"desynchronized"}"#, AccountStatus::Deactivated),
            (r#"{"active":false}"#, AccountStatus::Deactivated),
        ] {
            let text = format!(r#"{{"did":"did:plc:a","time_us":1,"kind":"account","account":{account}}}"#);
            assert!(matches!(read(&text).unwrap(), IndexChange::Account(c) if c.status == status), "{text}");
        }
    }

    #[test]
    fn an_account_event_has_the_time_of_its_server_unless_that_is_implausible() {
        let at = Timestamp::parse("2026-05-01T12:00:00Z").unwrap().0;
        for (time, micros) in [
            (r#""2026-05-01T11:59:57.123Z""#, at - 3_000_000 + 123_999),
            (r#""2026-05-01T14:00:02+02:00""#, at + 2_000_999),
            (r#""2026-05-01T10:00:00Z""#, at),
            (r#""3026-05-01T12:00:00Z""#, at),
            (r#""2026-05-01T12:04:59Z""#, at + 299_000_999),
            (r#""2026-05-01T12:05:01Z""#, at),
            (r#""yesterday""#, at),
            ("null", at),
        ] {
            let text = format!(
                r#"{{"did":"did:plc:a","time_us":{at},"kind":"account","account":{{"active":true,"time":{time}}}}}"#
            );
            let IndexChange::Account(change) = read(&text).unwrap() else { panic!("{text}") };
            assert_eq!(change.rev, Tid::new(micros as u64, 0x3ff).unwrap(), "{time}");
        }
        let at = |time_us: i64| {
            read(&format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"account","account":{{}}}}"#))
        };
        assert_eq!(at(-1).unwrap_err(), DropReason::BadTime);
        let IndexChange::Account(change) = at(i64::MAX).unwrap() else { panic!("an account") };
        assert_eq!(Some(change.rev), rev::highest_at(NOW), "no clock is that far ahead of ours");
        let behind = NOW.0 + 3_600_000_000;
        let IndexChange::Account(change) = at(behind).unwrap() else { panic!("an account") };
        assert_eq!(Some(change.rev), rev::highest_at(Timestamp(behind)), "our clock is behind");
    }

    #[test]
    fn a_commit_of_the_future_is_dropped() {
        let hour = 3_600_000_000;
        for (rev_at, time_us, is_dropped) in [
            (NOW.0 + 299_000_000, 1, false),
            (NOW.0 + hour, 1, true),
            (NOW.0 + 10 * 365 * 24 * hour, NOW.0, true),
            // Our clock is behind.
            (NOW.0 + hour, NOW.0 + hour, false),
            (NOW.0 + 365 * 24 * hour, i64::MAX, true),
        ] {
            let rev = rev::highest_at(Timestamp(rev_at)).unwrap();
            let fields = NOTE.replace("3mptbypluud2a", &rev.to_string());
            for operation in ["create", "update", "delete"] {
                let text =
                    commit("did:plc:a", &format!(r#"{fields},"operation":"{operation}","record":{{}}"#));
                let dropped = read(&text.replace("\"time_us\":1", &format!("\"time_us\":{time_us}"))).err();
                assert_eq!(dropped, is_dropped.then_some(DropReason::FutureRev), "{rev} {operation}");
            }
        }
    }

    #[test]
    fn a_sync_event_names_its_repo() {
        let read = |did: &str| read(&format!(r#"{{"did":"{did}","time_us":1,"kind":"sync","sync":{{}}}}"#));
        assert!(
            matches!(read("did:plc:a").unwrap(), IndexChange::Repair(did) if did.as_str() == "did:plc:a")
        );
        assert_eq!(read("a").unwrap_err(), DropReason::BadDid);
    }
}
