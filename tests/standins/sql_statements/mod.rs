//! Generates SQL statements of scripts from bytes. The same bytes give the same statement.

mod choices;
pub mod hostile;
pub mod portable;
mod words;

pub use choices::bytes;
