//! Shows the progress of a command: one line, replaced in place on a terminal, otherwise printed from time to time.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::print_stderr;

/// Without a terminal each line is one in a log, so there are fewer of them.
const PLAIN_PERIOD: Duration = Duration::from_secs(10);
/// Characters of a bar.
const BAR_WIDTH: u64 = 24;

/// The line. `State` is what a log shows every change of.
pub(super) struct Display<State> {
    is_terminal: bool,
    next: Instant,
    state: Option<State>,
}

impl<State: PartialEq> Display<State> {
    pub(super) fn new(now: Instant) -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), next: now, state: None }
    }

    pub(super) fn show(&mut self, line: &str, state: State) {
        if self.is_terminal {
            // Carriage return, and the control sequence that erases to the end of the line.
            let mut stderr = std::io::stderr();
            let _ = write!(stderr, "\r{line}\x1b[K").and_then(|()| stderr.flush());
            return;
        }
        let state = Some(state);
        if state != self.state || Instant::now() >= self.next {
            print_stderr(&line);
            self.state = state;
            self.next = Instant::now() + PLAIN_PERIOD;
        }
    }

    /// Erases the line on a terminal: the result replaces it.
    pub(super) fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// `[####----] 50%`
pub(super) fn bar(done: u64, total: u64) -> String {
    let share = |of: u64| {
        let share = u128::from(done.min(total)) * u128::from(of);
        share.checked_div(u128::from(total)).and_then(|share| u64::try_from(share).ok()).unwrap_or_default()
    };
    let full = share(BAR_WIDTH);
    let (done, left) = ("#".repeat(full as usize), "-".repeat((BAR_WIDTH - full) as usize));
    format!("[{done}{left}] {}%", share(100))
}

/// Digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{bar, grouped};

    #[test]
    fn bars_show_the_share_that_is_done() {
        assert_eq!(bar(0, 0), "[------------------------] 0%");
        assert_eq!(bar(1, 4), "[######------------------] 25%");
        assert_eq!(bar(9, 4), "[########################] 100%");
        assert_eq!(bar(u64::MAX, u64::MAX), "[########################] 100%");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
