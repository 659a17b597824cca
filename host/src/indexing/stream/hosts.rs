//! Several servers in rotation.

use url::Url;

/// Which server is next, and whether it is another one than the last that sent events.
#[derive(Debug)]
pub(super) struct Hosts {
    urls: Vec<Url>,
    current: usize,
    /// The server that the cursor in memory comes from. `None` after a start: the stored cursor doesn't say.
    cursor_from: Option<usize>,
}

impl Hosts {
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

    /// The current server's events are the ones that move the cursor now.
    pub(super) fn delivered(&mut self) {
        self.cursor_from = Some(self.current);
    }

    /// Whether the cursor may be another server's, so that it has to go back a little. With one server configured
    /// it is its own.
    pub(super) fn cursor_is_foreign(&self) -> bool {
        self.urls.len() > 1 && self.cursor_from != Some(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(n: usize) -> Hosts {
        Hosts::new((0..n).map(|i| Url::parse(&format!("ws://h{i}/subscribe")).unwrap()).collect())
    }

    #[test]
    fn rotates_and_knows_whose_cursor_it_is() {
        let mut hosts = hosts(2);
        assert!(hosts.cursor_is_foreign(), "after a start");
        hosts.delivered();
        assert!(!hosts.cursor_is_foreign());
        hosts.rotate();
        assert_eq!(hosts.current().host_str(), Some("h1"));
        assert!(hosts.cursor_is_foreign());
        hosts.rotate();
        assert!(!hosts.cursor_is_foreign(), "back at the server it came from");
    }

    #[test]
    fn a_single_server_never_rewinds() {
        let mut hosts = hosts(1);
        hosts.rotate();
        assert!(!hosts.cursor_is_foreign());
    }
}
