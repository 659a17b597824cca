//! One subscription over an in-memory socket and tokio's paused clock.
