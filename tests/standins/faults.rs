//! The faults of servers of a [network of repos](crate::repos::RepoNetwork).

use tokio::sync::watch;

use crate::cars::CarFault;

/// A failure of a request, or a fault of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    Status(u16, Vec<(&'static str, String)>, String),
    /// The connection breaks in the middle of the body.
    Reset,
    /// A page of a proxy, with status 200.
    Html,
    WrongCids,
    /// The records are those of another repo.
    WrongDids,
    /// The records of the page in ascending order.
    Unordered,
    /// The cursor of the request again, or one that never changes.
    SameCursor,
    /// Always the first page, with new cursors.
    Endless,
    /// The right answer, determined at once, but sent when the value is `true`.
    Until(watch::Receiver<bool>),
    /// A page with these records: record keys, and their values as text. It has no cursor, and CIDs of nothing.
    Records(Vec<(&'static str, String)>),
    /// The records of the page before again.
    PageBefore,
    /// A byte now and then, without an end.
    Drip,
    /// To another server.
    Redirect(String),
    /// This text, with status 200.
    Text(String),
    /// Something is wrong with the repo's CAR.
    Car(CarFault),
    /// A CAR of a gigabyte.
    Gigabyte,
    /// Pages of records have this many, whatever the request says.
    IgnoresLimit(usize),
    /// The highest record keys first, whatever the request says.
    IgnoresReverse,
    /// Both: as servers do that know no parameter besides the cursor.
    IgnoresLimitAndReverse(usize),
    /// Always the first page.
    IgnoresCursor,
    /// A page without entries, whose cursor leads to the page that was requested. Only for requests whose cursor does not
    /// end with `~`, the mark of such cursors.
    EmptyPageWithCursor,
    /// Every record of the page twice.
    RepeatsRecords,
    /// The page lacks the record with this key.
    LacksRecord(&'static str),
    /// Another record than the requested one.
    WrongRecord,
    /// The relay lists an entry without a DID, and one with a wrong one, before the others.
    EntryWithoutDid,
    /// The relay's list has this many repos on each page, which do not exist, and no end.
    InventsRepos(usize),
}

impl Fault {
    /// The answer of a server that does not know a method: as relays and PDSs of several origins send it.
    pub fn unknown_method(of: usize) -> Self {
        let answers = [
            (501, r#"{"error":"MethodNotImplemented","message":"Method Not Implemented"}"#),
            (404, r#"{"message":"Not Found"}"#),
            (400, r#"{"error":"InvalidRequest","message":"Unknown method"}"#),
        ];
        let (status, body) = answers[of % answers.len()];
        Self::Status(status, Vec::new(), body.to_owned())
    }

    /// A status without the name of an error: as routers and proxies send it.
    pub fn bare(status: u16) -> Self {
        Self::Status(status, Vec::new(), "<html><body>no server answers here</body></html>".to_owned())
    }

    /// A refusal with the name of an error, such as `RepoTakendown`.
    pub fn refusal(error: &str) -> Self {
        Self::Status(400, Vec::new(), format!(r#"{{"error":"{error}","message":"refused by the stand-in"}}"#))
    }

    /// Too many requests, with the time to wait.
    pub fn rate_limited_for(seconds: u32) -> Self {
        Self::Status(429, vec![("retry-after", seconds.to_string())], String::new())
    }

    /// Too many requests, without a header that says for how long: as large edges send it.
    pub fn rate_limited() -> Self {
        Self::Status(429, Vec::new(), "<html><body>429 Too Many Requests</body></html>".to_owned())
    }
}
