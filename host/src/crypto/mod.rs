//! Keys, signatures, sealing, hashing; no I/O.
