//! Signals, drain, hard stop.
