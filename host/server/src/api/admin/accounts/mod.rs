//! `/admin/accounts/{did}`: what an account has on this instance.

pub mod space_records;
pub mod spaces;
