//! `/admin/accounts`: accounts by DID, and what one has on this instance.

pub mod picture;
pub mod profiles;
pub mod space_records;
pub mod spaces;
