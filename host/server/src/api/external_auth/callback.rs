//! `GET /external-auth/{plugin}/callback`: the service redirects the user back. Completes the sign-in, and redirects to
//! the application with `auth=success`, or `auth=error` and a `message`.

use std::sync::Arc;

use url::Url;

use crate::access::Sender;
use crate::api::answer::{Built, Redirect};
use crate::api::auth::redirect;
use crate::app::App;
use belvedere_scripting::plugins::accounts::{AccountError, Completed};
use belvedere_web::http::{Error, Request};

use super::callback_url;

pub async fn handle(app: Arc<App>, request: Request) -> Result<Built<Redirect>, Error> {
    let plugin = request.param("plugin");
    let params = request.query_pairs();
    let params = params.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    // Without a cookie no browser can be the right one.
    let browser = app.access.web_sessions.consent_browser(request.headers()).unwrap_or_default();
    let completed = app.accounts.complete(plugin, &browser, callback_url(&app, plugin), params).await;
    match completed {
        Ok(Completed { redirect_uri, outcome }) => Ok(redirect(&with_outcome(&redirect_uri, &outcome)?)),
        Err(error) => {
            let is_forged = matches!(error, AccountError::State);
            if is_forged && Sender::of(&app.access, &request).may_log_denial() {
                app.accounts.record_refused_callback(plugin, &error);
            }
            Err(error.into())
        }
    }
}

/// The address of the application with the outcome in its query.
fn with_outcome(redirect_uri: &str, outcome: &Result<(), String>) -> Result<String, Error> {
    let mut url = Url::parse(redirect_uri).map_err(Error::internal)?;
    let mut query = url.query_pairs_mut();
    match outcome {
        Ok(()) => query.append_pair("auth", "success"),
        Err(message) => query.append_pair("auth", "error").append_pair("message", message),
    };
    drop(query);
    Ok(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_added_to_the_query() {
        let with =
            |to: &str, outcome: Result<(), &str>| with_outcome(to, &outcome.map_err(str::to_owned)).unwrap();
        assert_eq!(with("https://a.example/x", Ok(())), "https://a.example/x?auth=success");
        assert_eq!(with("https://a.example/x?y=1#z", Ok(())), "https://a.example/x?y=1&auth=success#z");
        assert_eq!(
            with("com.example.app:/back", Err("no & never\r\n")),
            "com.example.app:/back?auth=error&message=no+%26+never%0D%0A"
        );
    }
}
