//! The caller's session with their PDS, for methods that are answered without a script.

use std::sync::Arc;

use crate::app::App;
use belvedere_instance::pds::Session;
pub use belvedere_instance::repos::caller_session::failed;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;
use belvedere_web::http::Error;

/// The session that the caller's calls to a PDS go through: the one whose possession they proved. With `account`, the
/// session of an account that they write for.
///
/// # Errors
/// 401 for an anonymous call, without a proof of a session (a service token is not one), or when the session has ended.
pub async fn of(app: &App, caller: &Caller, account: Option<&Did>) -> Result<Arc<Session>, Error> {
    Ok(app.repos.session_of_caller(caller, account).await??)
}
