//! The labels of this instance as a labeler: [`LabelIssuer`] issues them, [`Signed`] signs them for others, and [`LabelFeed`] wakes
//! those who subscribe to them (ADR 128).

mod feed;
mod issuer;
mod signed;

pub use feed::{LabelFeed, LabelSubscription};
pub use issuer::{IssueError, LabelIssuer, LabelRequest};
pub use signed::Signed;
