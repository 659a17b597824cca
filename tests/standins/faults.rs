//! What can be wrong with the servers of a [network of repos](crate::repos::RepoNetwork).

use tokio::sync::watch;

use crate::cars::CarFault;

/// How a request fails, or what is wrong with its answer.
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
}
