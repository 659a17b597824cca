//! HTML that is safe to show among one's own.

use std::collections::HashSet;

use ammonia::{Builder, UrlRelative};
use belvedere_plugin::{Fault, FaultCode};

/// Most tags of a text. The parser looks through all open elements for each, so the time grows with the square of them;
/// this many nested ones take a fraction of a call's time.
pub(crate) const MAX_TAGS: usize = 10_000;

/// Keeps the elements and attributes of text; links lead only to `http`, `https` and `mailto`.
pub(crate) fn sanitize(html: &str, images: bool) -> Result<String, Fault> {
    if html.bytes().filter(|&byte| byte == b'<').count() > MAX_TAGS {
        return Err(Fault::new(FaultCode::TooLarge, format!("the text has more than {MAX_TAGS} HTML tags")));
    }
    let mut builder = Builder::default();
    builder
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        // A relative link would lead to whatever site shows the text.
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("nofollow noopener"));
    if !images {
        builder.rm_tags(["img"]);
    }
    Ok(builder.clean(html).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sanitize(html: &str, images: bool) -> String {
        super::sanitize(html, images).unwrap()
    }

    #[test]
    fn scripts_and_handlers_are_left_out() {
        for (html, expected) in [
            ("<script>alert(1)</script>a", "a"),
            ("<b onclick=alert(1)>a</b>", "<b>a</b>"),
            ("<img src=x onerror=alert(1)>", "<img>"),
            ("<svg><script>alert(1)</script></svg>", ""),
            ("<style>*{color:red}</style>a", "a"),
            ("<iframe src=https://a.example></iframe>", ""),
            ("<p style='color:red' id=x class=y>a", "<p>a</p>"),
            ("<math><mi><mglyph><style><img src=x onerror=alert(1)>", ""),
        ] {
            assert_eq!(sanitize(html, true), expected, "{html}");
        }
    }

    #[test]
    fn links_lead_only_to_the_web_and_to_mail() {
        let safe = r#"<a href="https://a.example" rel="nofollow noopener">a</a>"#;
        assert_eq!(sanitize("<a href=https://a.example rel=opener target=x>a</a>", true), safe);
        for url in
            ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "data:text/html,x", "/x", "//a.example", "x"]
        {
            let html = sanitize(&format!("<a href=\"{url}\">a</a>"), true);
            assert_eq!(html, r#"<a rel="nofollow noopener">a</a>"#, "{url}");
        }
        assert!(sanitize("<a href=mailto:a@b.example>a</a>", true).contains("mailto:a@b.example"));
    }

    #[test]
    fn images_can_be_left_out() {
        assert_eq!(sanitize("a<img src=https://a.example/b alt=c>", false), "a");
    }

    #[test]
    fn the_number_of_tags_is_limited() {
        for tag in ["<b>", "<p>", "<a href=x>", "<b><p>", "<table>"] {
            let count = tag.matches('<').count();
            assert!(super::sanitize(&tag.repeat(MAX_TAGS / count), true).is_ok(), "{tag}");
            let fault = super::sanitize(&tag.repeat(MAX_TAGS / count + 1), true).unwrap_err();
            assert_eq!(fault.code, FaultCode::TooLarge, "{tag}");
        }
    }
}
