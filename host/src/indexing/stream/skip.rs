//! Skips a message that ends every connection.
//!
//! A text message that isn't UTF-8, or is too large, ends the WebSocket connection. The server sends it again after
//! each reconnect, because the cursor lies before it. When that happens repeatedly without an event in between, the
//! cursor is moved past it: a short, logged gap instead of a stream that is blocked for ever.

use super::session::End;

/// Consecutive protocol errors, without an event in between, before the cursor is moved.
const ERRORS_BEFORE_SKIP: u32 = 3;

/// The first step of the cursor. Each further step is four times longer, because the time of the next valid event is
/// unknown.
const FIRST_STEP_US: i64 = 1_000_000;

/// How often the step grows fourfold; the longest step is about four and a half hours.
const MAX_GROWTH: u32 = 7;

#[derive(Debug, Default)]
pub(super) struct Skip {
    errors: u32,
}

impl Skip {
    /// The cursor to continue with after a session that started at `before` and reached `cursor`.
    pub(super) fn after(&mut self, end: &End, before: Option<i64>, cursor: Option<i64>) -> Option<i64> {
        if cursor != before {
            self.errors = 0;
        }
        let (End::Protocol(reason), Some(at)) = (end, cursor) else { return cursor };
        self.errors += 1;
        if self.errors < ERRORS_BEFORE_SKIP {
            return cursor;
        }
        let step_us = FIRST_STEP_US << (2 * (self.errors - ERRORS_BEFORE_SKIP).min(MAX_GROWTH));
        tracing::warn!(reason, cursor = at, step_us, "skipping a message that ends every connection");
        metrics::counter!("belvedere_stream_skips_total").increment(1);
        Some(at.saturating_add(step_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> End {
        End::Protocol("not UTF-8".into())
    }

    #[test]
    fn skips_only_after_several_errors_without_progress() {
        let mut skip = Skip::default();
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5 + FIRST_STEP_US));
        assert_eq!(skip.after(&broken(), Some(9), Some(9)), Some(9 + 4 * FIRST_STEP_US));
        assert_eq!(
            skip.after(&broken(), Some(9), Some(10)),
            Some(10),
            "events arrived: the count starts over"
        );
    }

    #[test]
    fn other_ends_and_a_stream_without_a_cursor_skip_nothing() {
        let mut skip = Skip::default();
        for _ in 0..9 {
            assert_eq!(skip.after(&End::Silent, Some(5), Some(5)), Some(5));
            assert_eq!(skip.after(&broken(), None, None), None);
        }
    }
}
