//! The protocol's syntax, documents, keys and signatures. No I/O.
//!
//! A room uses those above it in this list and none below (`tests/integration/layers/` checks it).

pub mod atproto; // the protocol's syntax, CIDs and lexicon documents; no I/O
pub mod crypto; // keys, signatures, sealing, hashing; no I/O
pub mod spaces; // permissioned spaces: addresses, repo state, tokens, rules; no I/O
pub mod trigger; // script ids and what triggers a script; no I/O
