//! Checks arguments: names, accounts, addresses, filters and orders.

use std::collections::HashSet;

use super::state::RunState;
use super::{fault, json};
use crate::scripts::bindings::belvedere::script::db::SortKey;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_storage::query::{Direction, Filter};

/// Refuses texts such as names and URIs that are longer than any valid one, before they are parsed.
pub(super) fn check_lengths(function: &str, texts: &[Option<&String>]) -> Result<(), Fault> {
    if texts.iter().flatten().any(|text| text.len() > limits::NAME_BYTES) {
        let max = limits::NAME_BYTES;
        return Err(fault::new(
            FaultCode::BadInput,
            format!("{function}: a text is longer than {max} bytes"),
        ));
    }
    Ok(())
}

pub(super) fn nsid(function: &str, text: &str) -> Result<Nsid, Fault> {
    Nsid::try_from(text).map_err(|_| invalid(function, format!("collection {text:?} is not an NSID")))
}

/// DIDs of a batch, each once. More than `max` are a fault.
pub(super) fn dids(function: &str, texts: &[String], max: usize) -> Result<Vec<Did>, Fault> {
    let mut seen = HashSet::new();
    let distinct: Vec<&String> = texts.iter().filter(|text| seen.insert(*text)).collect();
    if distinct.len() > max {
        return Err(fault::new(FaultCode::Limit, format!("{function}: at most {max} DIDs at once")));
    }
    distinct.into_iter().map(|text| did(function, text)).collect()
}

pub(super) fn did(function: &str, text: &str) -> Result<Did, Fault> {
    Did::try_from(text).map_err(|_| invalid(function, format!("{text:?} is not a DID")))
}

/// Several accounts, by their DIDs.
pub(super) fn accounts(function: &str, dids: Option<Vec<String>>) -> Result<Option<Vec<Did>>, Fault> {
    let Some(dids) = dids else { return Ok(None) };
    if dids.len() > limits::ACCOUNTS {
        return Err(invalid(function, format!("did: at most {} accounts", limits::ACCOUNTS)));
    }
    let read = |(n, text): (usize, &String)| {
        Did::try_from(text.as_str()).map_err(|_| {
            let shown: String = text.chars().take(80).collect();
            invalid(function, format!("did {} {shown:?} is not a DID", n + 1))
        })
    };
    dids.iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
}

pub(super) fn invalid(function: &str, error: impl std::fmt::Display) -> Fault {
    fault::new(FaultCode::BadInput, format!("{function}: {error}"))
}

pub(super) fn space(function: &str, text: &str) -> Result<SpaceUri, Fault> {
    SpaceUri::parse(text).map_err(|error| invalid(function, error))
}

/// The keys of an order with their directions.
pub(super) fn sort_keys<'a>(
    function: &str,
    keys: &'a [SortKey],
) -> Result<impl Iterator<Item = (&'a str, Direction)>, Fault> {
    for key in keys {
        check_lengths(function, &[Some(&key.key)])?;
    }
    let direction = |ascending| if ascending { Direction::Asc } else { Direction::Desc };
    Ok(keys.iter().map(move |SortKey { key, ascending }| (key.as_str(), direction(*ascending))))
}

pub(super) fn filter(
    state: &mut RunState,
    function: &str,
    text: Option<Vec<u8>>,
) -> Result<Option<Filter>, Fault> {
    let Some(text) = text else { return Ok(None) };
    json::check(state, &format!("{function}: filter"), &text, limits::FILTER_BYTES)?;
    let value =
        serde_json::from_slice(&text).map_err(|error| invalid(function, format!("filter: {error}")))?;
    Filter::from_json(&value).map(Some).map_err(|error| invalid(function, error))
}
