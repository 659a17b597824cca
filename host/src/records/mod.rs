//! Reading the index.
