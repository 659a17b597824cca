//! The conditions by which clients select events, as text.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use belvedere_base::clock::Timestamp;
use belvedere_storage::store::events::EventFilter;

/// Conditions as a request names them; blank ones count as absent.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// First segments of event types, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// A part of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The whole subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_is: Option<String>,
    /// The IP address of the client whose request caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The account that acted: a DID, or a handle in requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Only events of this time and later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub after: Option<String>,
    /// Only earlier events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Timestamp>")]
    pub before: Option<String>,
}

/// The reason why conditions are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEventQuery {
    #[error("severity {0} is not one of info, warn, error")]
    Severity(String),
    #[error("{0} must be an RFC 3339 time, like 2030-01-31T00:00:00Z")]
    Time(&'static str),
    #[error("address must be an IP address, like 203.0.113.7 or 2001:db8::1")]
    Address,
}

impl EventQuery {
    #[must_use]
    pub fn without_blanks(self) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        Self {
            event_type: given(self.event_type),
            category: given(self.category),
            severity: given(self.severity),
            subject: given(self.subject),
            subject_is: given(self.subject_is),
            address: given(self.address),
            actor: given(self.actor),
            after: given(self.after),
            before: given(self.before),
        }
    }

    /// The conditions for the store.
    ///
    /// # Errors
    /// Names the invalid one.
    pub fn filter(&self) -> Result<EventFilter, InvalidEventQuery> {
        let severity = |name: &str| name.parse().map_err(|_| InvalidEventQuery::Severity(name.to_owned()));
        Ok(EventFilter {
            event_type: self.event_type.clone(),
            categories: separated(self.category.as_deref()).map(str::to_owned).collect(),
            severities: separated(self.severity.as_deref()).map(severity).collect::<Result<_, _>>()?,
            subject: self.subject.clone(),
            subject_is: self.subject_is.clone(),
            address: self.address.as_deref().map(address).transpose()?,
            actor: self.actor.clone(),
            from: time("after", self.after.as_deref())?,
            before: time("before", self.before.as_deref())?,
            after: None,
        })
    }
}

/// The parts of a comma-separated list that are not blank.
fn separated(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// The address as events have it.
fn address(text: &str) -> Result<String, InvalidEventQuery> {
    let address: IpAddr = text.trim().parse().map_err(|_| InvalidEventQuery::Address)?;
    Ok(address.to_canonical().to_string())
}

fn time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, InvalidEventQuery> {
    text.map(|text| Timestamp::parse(text.trim()).map_err(|_| InvalidEventQuery::Time(name))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::events::Severity;

    fn query(parameters: &[(&str, &str)]) -> EventQuery {
        let fields = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        serde_json::from_value::<EventQuery>(serde_json::Value::Object(fields.collect()))
            .unwrap()
            .without_blanks()
    }

    #[test]
    fn lists_and_times_are_parsed_and_blanks_are_absent() {
        let filter = query(&[
            ("event_type", " "),
            ("category", "script, ,lexicon"),
            ("severity", "warn"),
            ("subject", "x"),
            ("address", " ::ffff:192.0.2.1"),
            ("after", "2023-11-14T22:13:20Z"),
            ("before", "2023-11-14T23:13:21+01:00"),
        ]);
        let filter = filter.filter().unwrap();
        assert_eq!((filter.event_type, filter.categories), (None, vec!["script".into(), "lexicon".into()]));
        assert_eq!((filter.severities, filter.subject.as_deref()), (vec![Severity::Warn], Some("x")));
        assert_eq!(filter.address.as_deref(), Some("192.0.2.1"));
        let second = |n: i64| Some(Timestamp(0).plus_seconds(1_700_000_000 + n));
        assert_eq!((filter.from, filter.before), (second(0), second(1)));
        assert_eq!(query(&[("before", "")]), EventQuery::default());
    }

    #[test]
    fn invalid_conditions_are_named() {
        let error = |name, value| query(&[(name, value)]).filter().unwrap_err().to_string();
        assert!(error("severity", "info,loud").contains("severity loud"));
        assert!(error("before", "yesterday").starts_with("before must be"));
        assert!(error("address", "localhost").starts_with("address must be"));
        assert!(error("after", "1700000000").starts_with("after must be"));
    }
}
