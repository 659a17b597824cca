//! Reads the small parts of a document: NSIDs, paths, values, directions.

use serde_json::Value;

use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::{Direction, Links, Path};

use crate::views::offence::Offences;
use crate::views::operand::Operand;
use crate::views::plan::Subject;

pub(super) fn nsid(text: &str, at: &str, offences: &mut Offences) -> Option<Nsid> {
    let parsed = Nsid::try_from(text).map_err(|_| format!("{text:?} is not the NSID of a collection"));
    offences.check(at, parsed)
}

pub(super) fn path(text: &str, at: &str, offences: &mut Offences) -> Option<Path> {
    offences.check(at, Path::parse(text).map_err(|error| format!("{text:?} is {error}")))
}

/// The links of records of a collection, the names of which stand at these two places.
pub(super) fn links(
    (collection, at_collection): (&str, &str),
    (path, at_path): (Option<&str>, &str),
    offences: &mut Offences,
) -> Option<Links> {
    let collection = nsid(collection, at_collection, offences);
    offences.check(at_path, Links::new(collection?, path.map(str::to_owned)))
}

pub(super) fn operand(value: &Value, at: &str, offences: &mut Offences) -> Option<Operand> {
    offences.check(at, Operand::read(value))
}

/// A number up to this one, or a parameter.
pub(super) fn number(value: &Value, at: &str, max: u32, offences: &mut Offences) -> Option<Operand> {
    let number = operand(value, at, offences)?;
    if let Operand::Constant(number) = &number
        && number.as_u64().is_none_or(|number| number > u64::from(max))
    {
        offences.add(at, format!("it is a number from 0 to {max}, or a parameter"));
    }
    Some(number)
}

/// The name of a field in an order, and its direction.
pub(super) fn direction(key: &str) -> (&str, Direction) {
    match key.strip_prefix('-') {
        Some(name) => (name, Direction::Desc),
        None => (key, Direction::Asc),
    }
}

/// The part of a row that an addition is about.
pub(super) fn subject(text: &str, at: &str, offences: &mut Offences) -> Option<Subject> {
    match text {
        "uri" => Some(Subject::Uri),
        "did" => Some(Subject::Did),
        text => path(text, at, offences).map(Subject::Field),
    }
}
