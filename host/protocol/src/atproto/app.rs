//! The app that an NSID belongs to (docs/adr/0150).

/// The app of an NSID: its first two segments, the domain of most authorities. `com.example.feed.getPosts` and
/// `com.example.post` belong to `com.example`. A shorter text is its own app.
pub fn app_of(nsid: &str) -> &str {
    nsid.match_indices('.').nth(1).map_or(nsid, |(dot, _)| &nsid[..dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_two_segments() {
        for (nsid, app) in [
            ("com.example.note", "com.example"),
            ("com.example.feed.getPosts", "com.example"),
            ("com.example", "com.example"),
            ("(unknown)", "(unknown)"),
            ("", ""),
            ("a.ä.c.d", "a.ä"),
        ] {
            assert_eq!(app_of(nsid), app, "{nsid}");
        }
    }
}
