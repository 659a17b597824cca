//! Rotates through the configured servers.

use url::Url;

/// The configured servers, the current one, and the one whose time the cursor has.
#[derive(Debug)]
pub(super) struct Servers {
    urls: Vec<Url>,
    current: usize,
    /// The server that sent the event at the cursor. `None` after a start: it is not stored with the cursor.
    cursor_from: Option<usize>,
    /// A connection was lost since the cursor moved.
    is_lost: bool,
}

impl Servers {
    /// `urls` must not be empty.
    pub(super) fn new(urls: Vec<Url>) -> Self {
        Self { urls, current: 0, cursor_from: None, is_lost: false }
    }

    pub(super) fn current(&self) -> &Url {
        &self.urls[self.current]
    }

    pub(super) fn rotate(&mut self) {
        self.current = (self.current + 1) % self.urls.len();
    }

    /// Records that the current server sent the event at the cursor.
    pub(super) fn delivered(&mut self) {
        (self.cursor_from, self.is_lost) = (Some(self.current), false);
    }

    /// Records that a connection was lost, or could not be opened.
    pub(super) fn lost(&mut self) {
        self.is_lost = true;
    }

    /// Whether the cursor may be a time of another server, so that it has to be rewound. Never with only one server
    /// configured.
    pub(super) fn cursor_is_foreign(&self) -> bool {
        self.urls.len() > 1 && self.cursor_from != Some(self.current)
    }

    /// Whether commits before the cursor may have been withheld, so that everything since the last one is requested: by a
    /// server that died and has come back, or by another one. With only one server nothing would tell that from a network
    /// without commits.
    pub(super) fn may_lack_commits(&self) -> bool {
        self.cursor_is_foreign() || self.urls.len() > 1 && self.is_lost
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
        assert!(!servers.may_lack_commits());
        servers.lost();
        assert!(servers.may_lack_commits() && !servers.cursor_is_foreign());
        servers.delivered();
        assert!(!servers.may_lack_commits());
    }

    #[test]
    fn a_single_server_never_rewinds() {
        let mut servers = servers(1);
        servers.rotate();
        servers.lost();
        assert!(!servers.cursor_is_foreign() && !servers.may_lack_commits());
    }
}
