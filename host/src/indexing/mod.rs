//! From stream to index.
