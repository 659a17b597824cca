//! Follows labelers: subscribes to their labels (`com.atproto.label.subscribeLabels`), verifies them, lets label scripts
//! decide, and stores them (indexing.md §4).
//!
//! | File | What |
//! |---|---|
//! | `handle` | wakes the supervisor and knows how many labelers are connected, for the rest of the server |
//! | `supervisor` | starts and stops a subscription for each active labeler, on the host that has the lease |
//! | `subscription` | keeps one labeler connected: DID document, address, backoff, cursor resets |
//! | `session` | reads one connection, and stores its labels and cursor |
//! | `verify` | decodes messages, and checks sources and signatures |
//! | `removal` | removes the labels of a deleted labeler, in small steps |
//!
//! The messages of a labeler are untrusted input: an invalid message or label is dropped, counted and reported once. A
//! labeler can speak only for itself: labels of another source, and labels without its signature, are refused.

mod handle;
mod removal;
mod session;
mod subscription;
mod supervisor;
mod verify;

pub use handle::Labelers;
