//! Checks the rule of an alert before it is stored.

use belvedere_storage::store::Backend;
use belvedere_storage::store::alerts::{AlertMetric, AlertRule, AlertTarget};
use belvedere_web::net;

use super::measure::measured;

/// Characters of a name, which is a line of a list.
const MAX_NAME: usize = 100;

/// Bytes of a label: a script's id is the longest.
const MAX_LABEL: usize = 512;

/// Bytes of the address of a webhook.
const MAX_URL: usize = 2_048;

/// Minutes for which a condition may have to hold: a day.
const MAX_MINUTES: i64 = 1_440;

/// The reason why a rule is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidRule {
    #[error("name must be 1 to {MAX_NAME} characters of text on one line")]
    Name,
    #[error("threshold must be a number that is not negative")]
    Threshold,
    #[error("minutes must be a number from 0 to {MAX_MINUTES}")]
    Minutes,
    #[error("{0} has no label: leave it out")]
    NoLabel(AlertMetric),
    #[error("label must be the name of a {0}, at most {MAX_LABEL} bytes; leave it out to measure all")]
    Label(&'static str),
    #[error("disk_free_bytes is measured with SQLite only: the disk of PostgreSQL is its server's")]
    NoDisk,
    #[error("url is for webhooks only: leave it out, or choose the target webhook")]
    NoUrl,
    #[error("url must be the address of the webhook, at most {MAX_URL} bytes")]
    Url,
    #[error("url can't be called: {0}")]
    Refused(net::NetError),
}

/// Checks a rule.
///
/// # Errors
/// The first mistake.
pub fn validate(rule: &AlertRule, backend: Backend, net: &net::Client) -> Result<(), InvalidRule> {
    let is_line = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
    if !is_line(&rule.name) || rule.name.chars().count() > MAX_NAME {
        return Err(InvalidRule::Name);
    }
    if !rule.threshold.is_finite() || rule.threshold < 0.0 {
        return Err(InvalidRule::Threshold);
    }
    if !(0..=MAX_MINUTES).contains(&rule.minutes) {
        return Err(InvalidRule::Minutes);
    }
    match (measured(rule.metric).by, rule.label.as_deref()) {
        (None, Some(_)) => return Err(InvalidRule::NoLabel(rule.metric)),
        (Some(by), Some(label)) if !is_line(label) || label.len() > MAX_LABEL => {
            return Err(InvalidRule::Label(by));
        }
        (_, _) => {}
    }
    if rule.metric == AlertMetric::DiskFreeBytes && backend != Backend::Sqlite {
        return Err(InvalidRule::NoDisk);
    }
    match (rule.target, rule.url.as_deref()) {
        (AlertTarget::Log, None) => Ok(()),
        (AlertTarget::Log, Some(_)) => Err(InvalidRule::NoUrl),
        (AlertTarget::Webhook, Some(url)) if is_line(url) && url.len() <= MAX_URL => {
            net.check_url(url).map_err(InvalidRule::Refused)
        }
        (AlertTarget::Webhook, _) => Err(InvalidRule::Url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::alerts::AlertCondition;

    fn rule() -> AlertRule {
        AlertRule {
            name: "Errors".to_owned(),
            metric: AlertMetric::ErrorRate,
            label: None,
            condition: AlertCondition::Above,
            threshold: 1.0,
            minutes: 5,
            target: AlertTarget::Log,
            url: None,
            secret: None,
            is_enabled: true,
        }
    }

    fn error(rule: &AlertRule) -> String {
        let net = net::testing::loopback();
        validate(rule, Backend::Postgres, &net).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(error(&rule()), "");
        let webhook =
            |url: &str| AlertRule { target: AlertTarget::Webhook, url: Some(url.to_owned()), ..rule() };
        assert_eq!(error(&webhook("http://127.0.0.1:1/x")), "");
        for (bad, text) in [
            (AlertRule { name: " ".to_owned(), ..rule() }, "name must be"),
            (AlertRule { name: "a\0".to_owned(), ..rule() }, "name must be"),
            (AlertRule { name: "x".repeat(101), ..rule() }, "name must be"),
            (AlertRule { threshold: f64::NAN, ..rule() }, "threshold must be"),
            (AlertRule { threshold: -1.0, ..rule() }, "threshold must be"),
            (AlertRule { minutes: -1, ..rule() }, "minutes must be"),
            (AlertRule { minutes: 1_441, ..rule() }, "minutes must be"),
            (AlertRule { label: Some("a\0".to_owned()), ..rule() }, "the name of a method"),
            (
                AlertRule { metric: AlertMetric::StreamLag, label: Some("x".to_owned()), ..rule() },
                "stream_lag has no label",
            ),
            (AlertRule { metric: AlertMetric::DiskFreeBytes, ..rule() }, "SQLite only"),
            (AlertRule { url: Some("https://a.example".to_owned()), ..rule() }, "webhooks only"),
            (AlertRule { target: AlertTarget::Webhook, ..rule() }, "url must be"),
            (webhook("nothing"), "url can't be called"),
            (webhook("ftp://a.example/"), "url can't be called"),
        ] {
            assert!(error(&bad).contains(text), "{text}: {}", error(&bad));
        }
    }
}
