//! Skips a message that ends every connection.
//!
//! A text message that isn't UTF-8, or is too large, ends the WebSocket connection. The server sends it again after
//! each reconnect, because the cursor lies before it. When that happens repeatedly without an event in between, the
//! cursor is moved past it: a short, logged gap instead of a stream that is blocked for ever.

use super::Lost;

/// Consecutive protocol errors, without an event in between, before the cursor is moved.
const ERRORS_BEFORE_SKIP: u32 = 3;

/// Number of times that the step grows fourfold: to 16,384 times the first one.
const MAX_GROWTH: u32 = 7;

#[derive(Debug)]
pub struct Skip {
    errors: u32,
    first_step: i64,
    /// The metric that counts the steps.
    counter: &'static str,
}

impl Skip {
    /// `first_step`: how far the cursor is moved first. Each further step is four times longer, because the cursor of
    /// the next valid event is unknown.
    pub fn new(first_step: i64, counter: &'static str) -> Self {
        Self { errors: 0, first_step, counter }
    }

    /// The cursor to continue with after a connection that started at `before`, reached `cursor` and was lost; `None`
    /// when it ended in another way.
    pub fn after(&mut self, lost: Option<&Lost>, before: Option<i64>, cursor: Option<i64>) -> Option<i64> {
        if cursor != before {
            self.errors = 0;
        }
        let (Some(Lost::Protocol(reason)), Some(at)) = (lost, cursor) else { return cursor };
        self.errors += 1;
        if self.errors < ERRORS_BEFORE_SKIP {
            return cursor;
        }
        let step = self.first_step << (2 * (self.errors - ERRORS_BEFORE_SKIP).min(MAX_GROWTH));
        tracing::warn!(reason, cursor = at, step, "skipping a message that ends every connection");
        metrics::counter!(self.counter).increment(1);
        Some(at.saturating_add(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: i64 = 1_000_000;

    fn broken() -> Lost {
        Lost::Protocol("not UTF-8".into())
    }

    #[test]
    fn skips_only_after_several_errors_without_progress() {
        let mut skip = Skip::new(STEP, "skips");
        assert_eq!(skip.after(Some(&broken()), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(Some(&broken()), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(Some(&broken()), Some(5), Some(5)), Some(5 + STEP));
        assert_eq!(skip.after(Some(&broken()), Some(9), Some(9)), Some(9 + 4 * STEP));
        assert_eq!(
            skip.after(Some(&broken()), Some(9), Some(10)),
            Some(10),
            "events arrived: the count starts over"
        );
    }

    #[test]
    fn other_ends_and_a_stream_without_a_cursor_skip_nothing() {
        let mut skip = Skip::new(STEP, "skips");
        for _ in 0..9 {
            assert_eq!(skip.after(Some(&Lost::Silent), Some(5), Some(5)), Some(5));
            assert_eq!(skip.after(Some(&broken()), None, None), None);
        }
    }
}
