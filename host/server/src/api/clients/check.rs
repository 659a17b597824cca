//! Validates the fields of an API client. Messages name fields by their column.

use url::Url;

use belvedere_instance::oauth::own::METADATA;
use belvedere_protocol::atproto::scope::{Scope, ScopeError, Scopes, with_single_spaces};
use belvedere_web::http::Error;

/// Redirect URIs or origins of one client: far more than any app has, few enough to keep a row small.
const MAX_URIS: usize = 64;

/// Maximum bytes of a name or a URI.
const MAX_TEXT: usize = 2048;

pub(in crate::api) fn text(name: &'static str, value: &str) -> Result<(), Error> {
    if value.trim().is_empty() {
        return Err(Error::bad_request(format!("{name} must not be blank")));
    }
    if value.len() > MAX_TEXT {
        return Err(Error::bad_request(format!("{name} is longer than {MAX_TEXT} bytes")));
    }
    Ok(())
}

pub(in crate::api) fn web_url(name: &'static str, value: &str) -> Result<(), Error> {
    text(name, value)?;
    match Url::parse(value) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host().is_some() => Ok(()),
        _ => Err(Error::bad_request(format!("{name} must be an http or https URL"))),
    }
}

/// Native apps redirect to schemes of their own, so any absolute URI is allowed.
pub(in crate::api) fn redirect_uris(values: &[String]) -> Result<(), Error> {
    if values.len() > MAX_URIS {
        return Err(Error::bad_request(format!("redirect_uris has more than {MAX_URIS} entries")));
    }
    for value in values {
        text("redirect_uris", value)?;
        if Url::parse(value).is_err() {
            return Err(Error::bad_request(format!("redirect_uris: {value} is not a URI")));
        }
    }
    Ok(())
}

pub(in crate::api) fn origins(values: &[String]) -> Result<(), Error> {
    if values.len() > MAX_URIS {
        return Err(Error::bad_request(format!("allowed_origins has more than {MAX_URIS} entries")));
    }
    for value in values {
        let is_origin = Url::parse(value).is_ok_and(|url| url.origin().ascii_serialization() == *value);
        if !is_origin {
            let message = format!("allowed_origins: {value} is not an origin like https://app.example");
            return Err(Error::bad_request(message));
        }
    }
    Ok(())
}

/// Checks a scope string and returns it as it is stored. `atproto` must be one of the scopes, as in every atproto
/// session. An unknown scope is kept, for servers that know it.
pub(in crate::api) fn scopes(value: &str) -> Result<String, Error> {
    let parsed: Scopes = value.parse().map_err(|error: ScopeError| Error::bad_request(error.to_string()))?;
    if !parsed.contains(&Scope::Atproto) {
        return Err(Error::bad_request("scopes must include atproto"));
    }
    Ok(with_single_spaces(value))
}

/// Refuses the metadata URL of the instance itself: as an API client it would share the logins of the instance.
pub(in crate::api) fn is_not_own(client_id_url: &str, own_origins: &[String]) -> Result<(), Error> {
    let given = Url::parse(client_id_url).ok();
    let is_own = |origin: &String| Url::parse(&format!("{origin}{METADATA}")).ok() == given;
    if own_origins.iter().any(is_own) {
        return Err(Error::conflict("client_id_url is that of this server itself"));
    }
    Ok(())
}

pub(in crate::api) fn capacity(value: i64) -> Result<(), Error> {
    if (1..=i64::from(u32::MAX)).contains(&value) {
        return Ok(());
    }
    Err(Error::bad_request("rate_limit_capacity must be 1 or more"))
}

pub(in crate::api) fn refill_rate(value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::bad_request("rate_limit_refill_rate must be more than 0 tokens a second"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_scopes_and_rates_are_checked() {
        assert!(web_url("client_uri", "https://app.example").is_ok());
        assert!(web_url("client_uri", "ftp://app.example").is_err());
        assert!(web_url("client_uri", " ").is_err());
        assert!(redirect_uris(&["com.example.app:/callback".into()]).is_ok());
        assert!(redirect_uris(&["callback".into()]).is_err());
        assert!(origins(&["https://app.example".into()]).is_ok());
        assert!(origins(&["https://app.example/".into()]).is_err());
        assert_eq!(
            scopes("atproto\ttransition:generic\n  later:x").unwrap(),
            "atproto transition:generic later:x"
        );
        for bad in
            ["transition:generic", "atproto repo:", "atproto rpc:*?aud=*", "atproto \u{a0}x", "", "atproto\\"]
        {
            assert_eq!(scopes(bad).unwrap_err().status, 400, "{bad}");
        }
        let own = ["https://own.example".to_owned()];
        assert!(is_not_own("https://app.example/oauth-client-metadata.json", &own).is_ok());
        for same in [
            "https://own.example/oauth-client-metadata.json",
            "HTTPS://OWN.example:443/oauth-client-metadata.json",
        ] {
            assert_eq!(is_not_own(same, &own).unwrap_err().status, 409, "{same}");
        }
        assert!(capacity(0).is_err() && capacity(1).is_ok());
        assert!(refill_rate(0.0).is_err() && refill_rate(f64::NAN).is_err() && refill_rate(0.5).is_ok());
    }
}
