//! The account that an operator names in a request.

use crate::app::App;
use belvedere_protocol::atproto::{Did, typed};
use belvedere_web::http::Error;

/// The account of a DID or of a handle, which may begin with `@`. `field` is the name of the field that has it.
///
/// # Errors
/// 400 when the text is neither, or the handle belongs to no account; 502 when the handle can't be looked up now.
pub(super) async fn account_of(app: &App, field: &str, text: &str) -> Result<Did, Error> {
    let text = &*typed(text);
    if text.starts_with("did:") {
        return Did::parse_account(text).map_err(|error| Error::bad_request(error.to_string()));
    }
    app.core.resolver.account(text).await.map_err(|error| error.of_parameter(field))
}
