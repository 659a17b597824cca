//! Renders the pages that people open in a browser. Their errors are pages too, unless the client asks for JSON.

use askama::Template;
use http::StatusCode;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
};

use belvedere_web::http::{Error, Response, response};

/// A title and a text, with a link to what the reader may do next.
#[derive(Debug, Template)]
#[template(path = "notice.html")]
pub(super) struct Notice<'a> {
    pub title: &'a str,
    pub text: &'a str,
    pub link: Option<Link>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub to: String,
    pub text: &'static str,
}

/// A page that runs no scripts, can't be framed and sends no referrer.
pub(super) fn render(status: StatusCode, template: &impl Template) -> Result<Response, Error> {
    let html = template.render().map_err(Error::internal)?;
    let mut answer = response::text(status, html);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src https: http: data:; frame-ancestors 'none'; \
                  base-uri 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(answer)
}

/// Whether a client asks for JSON: `Accept` names it, and no HTML. Browsers name HTML, and curl names nothing.
pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds = values.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    let kinds: Vec<String> = kinds.map(|kind| kind.trim().to_ascii_lowercase()).collect();
    kinds.iter().any(|kind| kind == "application/json") && !kinds.iter().any(|kind| kind == "text/html")
}

/// An error as a page. The text of an internal error is the id under which its cause is logged.
pub(super) fn of_error(error: Error, request_id: &str, link: Option<Link>) -> Result<Response, Error> {
    let title = match error.status {
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        status if status.is_server_error() => "Something went wrong",
        _ => "That did not work",
    };
    let text = if error.cause.is_some() {
        format!("The server has an internal problem. Its log has the details under {request_id}.")
    } else {
        sentence(error.message.as_deref().unwrap_or(&error.error))
    };
    let mut answer = render(error.status, &Notice { title, text: &text, link })?;
    answer.headers_mut().extend(error.headers);
    Ok(answer)
}

/// An error's text, which begins in lower case and has no full stop, as a sentence.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_web::http::response::Body;

    #[test]
    fn json_is_for_clients_that_ask_for_nothing_else() {
        let accept = |value: &'static str| {
            wants_json(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]))
        };
        assert!(accept("application/json") && accept("text/plain, Application/JSON;q=0.9"));
        for page in ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "*/*", ""] {
            assert!(!accept(page), "{page}");
        }
        assert!(!accept("text/html, application/json"));
        assert!(!wants_json(&HeaderMap::new()));
    }

    #[test]
    fn an_errors_text_is_escaped_and_an_internal_cause_is_not_shown() {
        let shown = |error: Error| {
            let link = Some(Link { to: "/back?a=1&b=\"".to_owned(), text: "Back" });
            let page = of_error(error, "the-id", link).unwrap();
            let status = page.status();
            let Body::Whole(html) = page.into_body() else { panic!("a page is complete") };
            (status, String::from_utf8(html.to_vec()).unwrap())
        };
        let (status, html) = shown(Error::bad_request("the <handle> is unknown"));
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(
            html.contains("The &#60;handle&#62; is unknown.") && html.contains("That did not work"),
            "{html}"
        );
        assert!(html.contains("/back?a=1&#38;b=&#34;"), "{html}");
        let (status, html) = shown(Error::internal("a secret"));
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(html.contains("the-id") && !html.contains("a secret"), "{html}");
    }
}
