//! Background work: what runs by the clock rather than for a request or an event.

pub mod retention;
