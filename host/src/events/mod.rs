//! The event log: one enum of events, written as rows.
