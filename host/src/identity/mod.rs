//! DIDs to documents, cached.
