//! Rotates through the configured servers.

use url::Url;

/// The configured servers, the current one, and the one whose time the cursor has.
#[derive(Debug)]
pub(super) struct Servers {
    urls: Vec<Url>,
    current: usize,
    /// The server that sent the event at the cursor. `None` after a start: it is not stored with the cursor.
    cursor_from: Option<usize>,
}

impl Servers {
    /// `urls` must not be empty.
    pub(super) fn new(urls: Vec<Url>) -> Self {
        Self { urls, current: 0, cursor_from: None }
    }

    pub(super) fn current(&self) -> &Url {
        &self.urls[self.current]
    }

    pub(super) fn rotate(&mut self) {
        self.current = (self.current + 1) % self.urls.len();
    }

    /// Records that the current server sent the event at the cursor.
    pub(super) fn delivered(&mut self) {
        self.cursor_from = Some(self.current);
    }

    /// Whether the cursor may be a time of another server, so that it has to be rewound. Never with only one server
    /// configured.
    pub(super) fn cursor_is_foreign(&self) -> bool {
        self.urls.len() > 1 && self.cursor_from != Some(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(n: usize) -> Servers {
        Servers::new((0..n).map(|i| Url::parse(&format!("ws://h{i}/subscribe")).unwrap()).collect())
    }

    #[test]
    fn rotates_and_knows_whether_the_cursor_is_foreign() {
        let mut servers = servers(2);
        assert!(servers.cursor_is_foreign(), "after a start");
        servers.delivered();
        assert!(!servers.cursor_is_foreign());
        servers.rotate();
        assert_eq!(servers.current().host_str(), Some("h1"));
        assert!(servers.cursor_is_foreign());
        servers.rotate();
        assert!(!servers.cursor_is_foreign(), "back at the server it came from");
    }

    #[test]
    fn a_single_server_never_rewinds() {
        let mut servers = servers(1);
        servers.rotate();
        assert!(!servers.cursor_is_foreign());
    }
}
