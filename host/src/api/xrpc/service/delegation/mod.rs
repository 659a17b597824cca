//! `dev.service.delegation.*`: accounts that several users of an application write for.

pub mod add_delegate;
pub mod get_account;
pub mod link_account;
pub mod list_accounts;
pub mod list_delegates;
pub mod remove_delegate;
pub mod unlink_account;

use crate::atproto::Did;
use crate::http::{Error, Request};

fn did(name: &str, text: &str) -> Result<Did, Error> {
    Did::try_from(text).map_err(|_| Error::bad_request(format!("{name} is not a DID")))
}

fn query_did(request: &Request, name: &'static str) -> Result<Did, Error> {
    let text = request.query(name).ok_or_else(|| Error::bad_request(format!("{name} is missing")))?;
    did(name, &text)
}
