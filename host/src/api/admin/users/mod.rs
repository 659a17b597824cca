//! `/admin/users`

pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod permissions;
pub mod transfer_super;
mod view;

use crate::http::Error;

fn not_found() -> Error {
    Error::not_found("user not found")
}
