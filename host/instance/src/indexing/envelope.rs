//! Filters events: an [`Envelope`] is an event of a tracked collection, an account, an identity or a whole repo, owned
//! and with valid identifiers. Its record has not been parsed yet.

use bytes::Bytes;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, Tid, rev};
use belvedere_storage::store::index::{AccountChange, AccountStatus, Delete};

use super::frame::{Account, Body, Commit, Event, Operation};
use super::scripts::RecordAction;
use super::tally::DropReason;

#[derive(Debug)]
pub(super) enum Envelope {
    Record(Candidate),
    Delete(Delete),
    Account(AccountChange),
    Identity(Did),
    Sync(Did),
}

/// A record that was created or updated, not yet checked.
#[derive(Debug)]
pub struct Candidate {
    pub did: Did,
    pub collection: Nsid,
    pub rkey: RecordKey,
    pub rev: Tid,
    /// A copy of the record's JSON text: a slice would keep the socket's whole read buffer alive.
    pub record: Bytes,
    pub claim: Claim,
    /// What happened to the record.
    pub action: RecordAction,
}

/// The CID that the stream or a PDS claims for the record.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    None,
    Cid(Cid),
    /// Not a CID; cut to a length that can be logged.
    Garbage(String),
}

/// How far our clock may be behind. An event of a later time is taken as one of the present.
const MAX_CLOCK_ERROR_US: i64 = 24 * 3_600 * 1_000_000;

/// How far the account's server and the Jetstream server may differ about the time of an event. Beyond it, a clock is
/// wrong or the time was made up.
const MAX_EVENT_DELAY_US: u64 = 60 * 60 * 1_000_000;

/// Characters of an invalid claim that are kept for the log; a CID has 59.
const MAX_CLAIM_CHARS: usize = 100;

/// Filters one event. `tracked` must be sorted; events of other collections are dropped before anything is copied. `now`
/// is our clock's time. A clock that is behind drops no commit and forgets no deletion: the event's own time counts too.
///
/// # Errors
/// Why the event was dropped.
pub(super) fn filter(event: &Event<'_>, tracked: &[Nsid], now: Timestamp) -> Result<Envelope, DropReason> {
    let is_believed = event.time_us <= now.0.saturating_add(MAX_CLOCK_ERROR_US);
    let received = if is_believed { Timestamp(event.time_us) } else { now };
    let did = || Did::try_from(&*event.did).map_err(|_| DropReason::BadDid);
    match &event.body {
        Body::Commit(commit) => {
            let found = tracked.binary_search_by(|nsid| nsid.as_str().cmp(&commit.collection));
            let collection = &tracked[found.map_err(|_| DropReason::Untracked)?];
            open_commit(did()?, collection.clone(), commit, now.max(received))
        }
        Body::Identity => Ok(Envelope::Identity(did()?)),
        Body::Sync => Ok(Envelope::Sync(did()?)),
        Body::Account(account) => {
            let rev = account_rev(account, received).ok_or(DropReason::BadTime)?;
            Ok(Envelope::Account(AccountChange { did: did()?, status: account_status(account), rev }))
        }
        Body::Other => Err(DropReason::Unknown),
    }
}

fn open_commit(
    did: Did,
    collection: Nsid,
    commit: &Commit<'_>,
    now: Timestamp,
) -> Result<Envelope, DropReason> {
    let rkey = RecordKey::try_from(&*commit.rkey).map_err(|_| DropReason::BadRkey)?;
    let rev = Tid::try_from(&*commit.rev).map_err(|_| DropReason::BadRev)?;
    if rev::is_of_the_future(rev, now) {
        return Err(DropReason::FutureRev);
    }
    if commit.operation == Operation::Delete {
        return Ok(Envelope::Delete(Delete { did, collection, rkey, rev }));
    }
    let record = commit.record.ok_or(DropReason::NoRecord)?;
    let claim = commit.cid.map_or(Claim::None, Claim::parse);
    let action =
        if commit.operation == Operation::Update { RecordAction::Update } else { RecordAction::Create };
    Ok(Envelope::Record(Candidate {
        did,
        collection,
        rkey,
        rev,
        record: Bytes::copy_from_slice(record.as_bytes()),
        claim,
        action,
    }))
}

impl Claim {
    /// Parses a claim. `raw` is any JSON text; a valid claim is a quoted CID.
    pub fn parse(raw: &str) -> Self {
        let inner = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"'));
        match inner.and_then(|text| text.parse().ok()) {
            Some(cid) => Self::Cid(cid),
            None => Self::Garbage(raw.chars().take(MAX_CLAIM_CHARS).collect()),
        }
    }
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

impl Envelope {
    /// What happened to the record; `None` for an event of an account, an identity or a whole repo.
    pub(super) fn action(&self) -> Option<RecordAction> {
        match self {
            Self::Record(candidate) => Some(candidate.action),
            Self::Delete(_) => Some(RecordAction::Delete),
            Self::Account(_) | Self::Identity(_) | Self::Sync(_) => None,
        }
    }

    /// Bytes of the record's text; 0 without one.
    pub(super) fn record_bytes(&self) -> usize {
        if let Self::Record(candidate) = self { candidate.record.len() } else { 0 }
    }

    /// The repo of the event. The order of its events must be kept.
    pub(super) fn did(&self) -> &Did {
        match self {
            Self::Record(candidate) => &candidate.did,
            Self::Delete(delete) => &delete.did,
            Self::Account(change) => &change.did,
            Self::Identity(did) | Self::Sync(did) => did,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame;
    use super::*;

    fn tracked() -> Vec<Nsid> {
        ["app.example.like", "app.example.note"].into_iter().map(|n| Nsid::try_from(n).unwrap()).collect()
    }

    fn read(text: &str) -> Result<Envelope, DropReason> {
        filter(&frame::parse(text.as_bytes()).unwrap().into_event().unwrap(), &tracked(), NOW)
    }

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);

    fn commit(did: &str, fields: &str) -> String {
        format!(r#"{{"did":"{did}","time_us":1,"kind":"commit","commit":{{{fields}}}}}"#)
    }

    const NOTE: &str = r#""collection":"app.example.note","rkey":"self","rev":"3mptbypluud2a""#;

    #[test]
    fn a_create_is_a_candidate_and_a_delete_needs_no_record() {
        let text = commit("did:plc:a", &format!(r#"{NOTE},"operation":"create","record":{{"a":1}}"#));
        let Envelope::Record(c) = read(&text).unwrap() else { panic!() };
        assert_eq!((&c.record[..], c.claim), (&br#"{"a":1}"#[..], Claim::None));
        let text = commit("did:plc:a", &format!(r#"{NOTE},"operation":"delete""#));
        assert!(matches!(read(&text).unwrap(), Envelope::Delete(d) if d.did.as_str() == "did:plc:a"));
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
    fn claims_are_cids_or_bounded_garbage() {
        let good = "\"bafyreiguce4jh7kcbmof3pmcvasifqtw24b6isakj5ve5ga2b4z4alpc4i\"";
        assert!(matches!(Claim::parse(good), Claim::Cid(_)));
        assert_eq!(Claim::parse("12"), Claim::Garbage("12".into()));
        assert!(
            matches!(Claim::parse(&format!("\"{}\"", "é".repeat(5000))), Claim::Garbage(g) if g.chars().count() == 100)
        );
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
            assert!(matches!(read(&text).unwrap(), Envelope::Account(c) if c.status == status), "{text}");
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
            let Envelope::Account(change) = read(&text).unwrap() else { panic!("{text}") };
            assert_eq!(change.rev, Tid::new(micros as u64, 0x3ff).unwrap(), "{time}");
        }
        let at = |time_us: i64| {
            read(&format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"account","account":{{}}}}"#))
        };
        assert_eq!(at(-1).unwrap_err(), DropReason::BadTime);
        let Envelope::Account(change) = at(i64::MAX).unwrap() else { panic!("an account") };
        assert_eq!(Some(change.rev), rev::highest_at(NOW), "no clock is that far ahead of ours");
        let behind = NOW.0 + 3_600_000_000;
        let Envelope::Account(change) = at(behind).unwrap() else { panic!("an account") };
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
        assert!(matches!(read("did:plc:a").unwrap(), Envelope::Sync(did) if did.as_str() == "did:plc:a"));
        assert_eq!(read("a").unwrap_err(), DropReason::BadDid);
    }
}
