//! Backfills: reads the history of collections from the PDSs into the index (service.md, Backfill job;
//! admin-api.md §12).
//!
//! | File | What |
//! |---|---|
//! | `handle` | creates, controls and watches jobs, for the rest of the server |
//! | `worker` | runs the jobs, one at a time |
//! | `repairs` | how often repos that the stream marks become a job |
//! | `run` | the stages of a job |
//! | `discovery` | stage 1: the repos that the relay lists |
//! | `fetching`, `hosts`, `rate_limit` | stage 2: looks up the PDSs and reads the repos, with queues by host |
//! | `reader`, `repo`, `slow_guard` | reads one repo, page by page; gives up PDSs that are too slow |
//! | `page`, `listing` | what a page lists of a collection, and what follows from a list's pages |
//! | `diff` | how the index differs from a page |
//! | `list_writer`, `left_out` | stores and removes what differs, and counts what can't be indexed |
//! | `choice`, `car_reading`, `car` | whether the rest of a repo comes as a CAR, and its records in pages |
//! | `accounts` | after a gap of the stream, hides and shows accounts as their PDSs say |
//! | `lookup` | finds the PDS of a repo |
//! | `verify` | compares the index with the PDSs, and changes nothing |
//! | `request`, `next_page`, `absence`, `car_request`, `failure` | queries to other servers, and their errors |
//! | `reporter`, `progress`, `meter` | counters and messages |
//! | `plan` | estimates what a job would cost |
//! | `feed` | messages for those who follow a job over HTTP |
//! | `retention` | deletes the details of old jobs |
//!
//! A PDS's list of records has no revs, so a repo's rev is read before its records, and all changes of the index carry
//! it. The index ignores changes that are older than what it has; so whatever the stream changed in the meantime wins,
//! in either order. Checkpoints save a job's progress, always after the records are committed.

mod absence;
mod accounts;
mod car;
mod car_reading;
mod car_request;
mod choice;
mod deps;
mod diff;
mod discovery;
mod failure;
mod feed;
mod fetching;
mod growth;
mod handle;
mod hosts;
mod left_out;
mod list_writer;
mod listing;
mod lookup;
mod meter;
mod next_page;
mod outcome;
mod page;
mod plan;
mod progress;
mod rate_limit;
mod reader;
mod repairs;
mod repo;
mod repo_reader;
mod reporter;
mod request;
pub mod retention;
mod run;
mod slow_guard;
mod verify;
mod worker;

pub use deps::Deps;
pub use failure::ErrorKind;
pub use feed::Feeds;
pub use handle::{Backfills, NewBackfill};
pub use plan::{Plan, Planner};
pub use verify::{Differences, Report, Scope, Verifier};
pub use worker::start;
