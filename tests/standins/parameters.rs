//! The parameters that a developer may choose for a run of the tests: a seed, or its length.

/// The number in an environment variable; `None` if it is not set.
///
/// # Panics
/// If the variable is not a number.
#[expect(clippy::disallowed_methods, reason = "the only place where tests read parameters")]
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text:?}")))
}
