//! Parses single values. An invalid value is added to the [`Problems`] instead of returned as an error.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use url::Url;

use super::Problems;

/// The value without surrounding space; `None` when unset or empty.
pub(super) fn text(value: Option<String>) -> Option<String> {
    value.map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
}

/// The non-empty items of a comma-separated list.
pub(super) fn list(value: Option<String>) -> Vec<String> {
    let value = value.unwrap_or_default();
    value.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

/// A number within a range, or `default` when unset.
pub(super) fn number<T>(
    variable: &'static str,
    value: Option<String>,
    default: T,
    range: RangeInclusive<T>,
    problems: &mut Problems,
) -> T
where
    T: FromStr + PartialOrd + Display + Copy,
{
    let Some(value) = text(value) else { return default };
    match value.parse() {
        Ok(number) if range.contains(&number) => number,
        _ => {
            let (low, high) = range.into_inner();
            problems.add(variable, format!("{value:?} is not a number from {low} to {high}"));
            default
        }
    }
}

/// `true` or `false` (also `1`/`0`, `yes`/`no`, `on`/`off`), or `default` when unset.
pub(super) fn flag(
    variable: &'static str,
    value: Option<String>,
    default: bool,
    problems: &mut Problems,
) -> bool {
    let Some(value) = text(value) else { return default };
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => true,
        "false" | "0" | "no" | "off" => false,
        _ => {
            problems.add(variable, format!("{value:?} is neither true nor false"));
            default
        }
    }
}

/// A URL with one of the schemes and a host.
pub(super) fn url(
    variable: &'static str,
    value: &str,
    schemes: &[&str],
    problems: &mut Problems,
) -> Option<Url> {
    match Url::parse(value) {
        Ok(url) if schemes.contains(&url.scheme()) && url.has_host() => Some(url),
        _ => {
            let schemes: Vec<String> = schemes.iter().map(|s| format!("{s}://")).collect();
            problems
                .add(variable, format!("{value:?} is not a URL that begins with {}", schemes.join(" or ")));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range() {
        let mut problems = Problems::default();
        assert_eq!(number("A", None, 5, 1..=9, &mut problems), 5);
        assert_eq!(number("A", Some(" 7 ".into()), 5, 1..=9, &mut problems), 7);
        assert_eq!(problems, Problems::default());
        assert_eq!(number("A", Some("10".into()), 5, 1..=9, &mut problems), 5);
        assert_eq!(number("B", Some("x".into()), 5, 1..=9, &mut problems), 5);
        assert_eq!(problems.iter().count(), 2);
        let mut problems = Problems::default();
        number("C", Some("NaN".into()), 1.0, 0.1..=2.0, &mut problems);
        assert_eq!(problems.iter().count(), 1, "NaN is in no range");
    }

    #[test]
    fn lists_and_flags() {
        assert_eq!(list(Some(" a, ,b,".into())), ["a", "b"]);
        let mut problems = Problems::default();
        assert!(flag("A", Some("TRUE".into()), false, &mut problems));
        assert!(!flag("A", Some("maybe".into()), false, &mut problems));
        assert_eq!(problems.iter().count(), 1);
    }

    #[test]
    fn urls_have_a_known_scheme_and_a_host() {
        let mut problems = Problems::default();
        assert!(url("A", "https://a.test/x", &["https"], &mut problems).is_some());
        for bad in ["a.test", "http://a.test", "https://", "mailto:a@b"] {
            assert!(url("A", bad, &["https"], &mut problems).is_none(), "{bad}");
        }
        assert_eq!(problems.iter().count(), 4);
    }
}
