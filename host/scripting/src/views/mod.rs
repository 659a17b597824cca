//! Views: documents that answer query methods without code (`docs/views.md`).
//!
//! A document is compiled ([`mod@compile`]) and compared with the lexicon of its method ([`mod@check`]) when it is stored and when it
//! is loaded. A call runs a bounded number of the reads of `belvedere_storage`: one for its rows, and one for each addition
//! of all rows of a level. Every bound is a constant in [`limits`].

mod blobs;
mod check;
mod collections;
mod compile;
mod conditions;
mod document;
mod error;
mod explain;
mod level;
mod library;
pub mod limits;
mod needs;
mod offence;
mod operand;
mod output;
mod parameters;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub use check::{Documents, check};
pub use compile::compile;
pub use document::schema;
pub use error::ViewError;
pub use explain::{Step, explain};
pub use library::{StoredView, Views, documents, documents_of};
pub use needs::request_indexes;
pub use offence::{Offence, Offences};
pub use operand::Arguments;
pub use parameters::{Form, ParameterUse};
pub use plan::View;
pub use run::Reads;
