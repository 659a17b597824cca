//! Reads the parameters that methods of spaces share.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_web::http::{Error, Request};

/// 400 `InvalidRequest` with a text.
pub fn invalid(text: impl Into<String>) -> Error {
    Error::bad_request("InvalidRequest").with_message(text.into())
}

/// A body as JSON.
pub fn body<T: de::DeserializeOwned>(request: &Request) -> Result<T, Error> {
    request.json().map_err(|error| invalid(error.error.into_owned()))
}

/// A query parameter; an empty one counts as absent.
pub fn optional<T>(request: &Request, name: &str) -> Result<Option<T>, Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    match request.query(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| invalid(format!("{name}: {error}"))),
    }
}

pub fn required<T>(request: &Request, name: &str) -> Result<T, Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    optional(request, name)?.ok_or_else(|| invalid(format!("{name} is missing")))
}

/// The parameter `space`.
pub fn space(request: &Request) -> Result<SpaceUri, Error> {
    required(request, "space")
}

/// The author that a call names in `repo`, or in `did`, its older name.
pub fn repo(request: &Request) -> Result<Option<Did>, Error> {
    match optional(request, "repo")? {
        Some(did) => Ok(Some(did)),
        None => optional(request, "did"),
    }
}

/// The author that a call must name.
pub fn required_repo(request: &Request) -> Result<Did, Error> {
    repo(request)?.ok_or_else(|| invalid("repo is missing"))
}

/// The parameter `limit`, from 1 to `max`.
pub fn limit(request: &Request, default: u32, max: u32) -> Result<u32, Error> {
    let limit: u32 = optional(request, "limit")?.unwrap_or(default);
    if (1..=max).contains(&limit) { Ok(limit) } else { Err(invalid(format!("limit must be 1 to {max}"))) }
}

pub fn flag(request: &Request, name: &str) -> Result<Option<bool>, Error> {
    optional(request, name)
}

/// A field whose text is parsed, for `#[serde(deserialize_with)]`.
pub fn text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// The same for a field that may be absent or null.
pub fn optional_text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
}
