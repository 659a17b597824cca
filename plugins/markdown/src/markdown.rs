//! CommonMark to HTML and to text.

use belvedere_plugin::Fault;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde::Deserialize;

use crate::html;

/// The options of `render`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RenderOptions {
    /// Keeps line breaks within a paragraph.
    breaks: bool,
    images: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { breaks: false, images: true }
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS)
}

/// Safe HTML. HTML within the text is sanitised as well.
pub(crate) fn render(text: &str, options: &RenderOptions) -> Result<String, Fault> {
    let mut unsafe_html = String::with_capacity(text.len() * 2);
    let events = parser(text).map(|event| match event {
        Event::SoftBreak if options.breaks => Event::HardBreak,
        // Check boxes are form elements, which are not safe to show.
        Event::TaskListMarker(true) => Event::Text("☑ ".into()),
        Event::TaskListMarker(false) => Event::Text("☐ ".into()),
        event => event,
    });
    pulldown_cmark::html::push_html(&mut unsafe_html, events);
    html::sanitize(&unsafe_html, options.images)
}

/// The text without markup: blocks on lines of their own, paragraphs with an empty line between them.
pub(crate) fn to_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for event in parser(text) {
        match event {
            Event::Text(text) | Event::Code(text) => out.push_str(&text),
            Event::SoftBreak => out.push(' '),
            Event::HardBreak
            | Event::Rule
            | Event::Start(Tag::Item | Tag::TableRow | Tag::TableHead)
            | Event::End(TagEnd::List(_)) => end_line(&mut out),
            Event::End(TagEnd::TableCell) => out.push('\t'),
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::CodeBlock | TagEnd::Table) => {
                end_line(&mut out);
                out.push('\n');
            }
            _ => {}
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Ends the line, unless nothing is on it.
fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches([' ', '\t']).len());
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html() {
        let render = |text| render(text, &RenderOptions::default()).unwrap();
        assert_eq!(render("# A\n\nb *c* `d`\ne"), "<h1>A</h1>\n<p>b <em>c</em> <code>d</code>\ne</p>\n");
        assert_eq!(render("~~a~~"), "<p><del>a</del></p>\n");
        assert_eq!(render("- [x] a\n- [ ] b"), "<ul>\n<li>☑ a</li>\n<li>☐ b</li>\n</ul>\n");
        assert!(render("|a|b|\n|-|-|\n|1|2|").contains("<td>2</td>"));
        assert_eq!(
            render("[a](https://b.example \"c\")"),
            "<p><a href=\"https://b.example\" title=\"c\" rel=\"nofollow noopener\">a</a></p>\n"
        );
    }

    #[test]
    fn options_are_followed() {
        let options = RenderOptions { breaks: true, images: false };
        assert_eq!(render("a\nb ![c](https://d.example)", &options).unwrap(), "<p>a<br>\nb </p>\n");
    }

    #[test]
    fn html_in_markdown_is_sanitised() {
        let render = |text| render(text, &RenderOptions::default()).unwrap();
        assert_eq!(render("a <script>alert(1)</script>"), "<p>a </p>\n");
        assert_eq!(render("[a](javascript:alert(1))"), "<p><a rel=\"nofollow noopener\">a</a></p>\n");
        assert_eq!(
            render("<a href=\"javascript:alert(1)\">a</a>"),
            "<p><a rel=\"nofollow noopener\">a</a></p>\n"
        );
    }

    #[test]
    fn markdown_becomes_text() {
        assert_eq!(to_text("# A\n\nb *c* [d](https://e.example)\nf\n\n- g\n- h\n"), "A\n\nb c d f\n\ng\nh");
        assert_eq!(to_text("|a|b|\n|-|-|\n|1|2|"), "a\tb\n1\t2");
    }

    #[test]
    fn deep_nesting_ends() {
        for unit in ["> ", "- ", "*a ", "[", "<b>", "`", "![](", "<a href=x>", "(", "~~a "] {
            let text = unit.repeat(crate::MAX_TEXT / unit.len());
            let _ = render(&text, &RenderOptions::default());
            let _ = to_text(&text);
        }
    }
}
