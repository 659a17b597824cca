//! The registry of uploaded lexicons.
