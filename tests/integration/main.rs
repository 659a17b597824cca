//! The booted server, driven over HTTP, on both databases. The tree mirrors the URLs.
