//! The only outbound client, guarded.
