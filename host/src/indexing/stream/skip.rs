//! Getting past a message that ends the connection.
//!
//! A text frame that isn't UTF-8, or is larger than we take, breaks the websocket. The server sends it again after
//! each reconnect, because the cursor lies before it. When that happens over and over without a single event in
//! between, the cursor steps over it: a short gap, said aloud, instead of a stream that stands for ever.

use super::session::End;

/// Protocol errors in a row, without an event, before the cursor moves.
const STRIKES: u32 = 3;

/// First step. It grows fourfold, because nobody knows how far away the next good event is.
const FIRST_STEP_US: i64 = 1_000_000;

/// No step is longer than four hours.
const MAX_GROWTH: u32 = 7;

#[derive(Debug, Default)]
pub(super) struct Skip {
    strikes: u32,
}

impl Skip {
    /// The cursor to go on with, after a session that began at `before` and got to `cursor`.
    pub(super) fn after(&mut self, end: &End, before: Option<i64>, cursor: Option<i64>) -> Option<i64> {
        if cursor != before {
            self.strikes = 0;
        }
        let (End::Protocol(reason), Some(at)) = (end, cursor) else { return cursor };
        self.strikes += 1;
        if self.strikes < STRIKES {
            return cursor;
        }
        let step_us = FIRST_STEP_US << (2 * (self.strikes - STRIKES).min(MAX_GROWTH));
        tracing::warn!(
            reason,
            cursor = at,
            step_us,
            "stepping over a message that ends the connection each time"
        );
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
    fn steps_over_only_after_several_strikes_without_progress() {
        let mut skip = Skip::default();
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5));
        assert_eq!(skip.after(&broken(), Some(5), Some(5)), Some(5 + FIRST_STEP_US));
        assert_eq!(skip.after(&broken(), Some(9), Some(9)), Some(9 + 4 * FIRST_STEP_US));
        assert_eq!(skip.after(&broken(), Some(9), Some(10)), Some(10), "events came: it starts over");
    }

    #[test]
    fn other_ends_and_a_live_stream_move_nothing() {
        let mut skip = Skip::default();
        for _ in 0..9 {
            assert_eq!(skip.after(&End::Silent, Some(5), Some(5)), Some(5));
            assert_eq!(skip.after(&broken(), None, None), None);
        }
    }
}
