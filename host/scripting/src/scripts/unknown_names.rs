//! Names that a source uses and nothing defines, and what was probably meant.

use std::fmt;

use super::bindings::belvedere::script::types::UnknownName as Found;
use super::contract::globals::OF_RUNS;

/// A global, or a field of a table such as `db`, that a source uses and nothing defines: it is nil when the script runs. The
/// guest finds them in the bytecode, so comments, strings and local variables are no matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// `tostirng`, or `db.qurey`.
    pub name: String,
    pub line: u32,
    /// A name that differs by a few letters.
    pub meant: Option<String>,
}

impl UnknownName {
    /// `known`: the names that the guest defines. Those that only some runs define are left out.
    pub(super) fn all(found: Vec<Found>, known: &[String]) -> Vec<Self> {
        let found = found.into_iter().filter(|found| OF_RUNS.iter().all(|(name, _)| found.name != *name));
        found.map(|Found { name, line }| Self { meant: meant(&name, known), name, line }).collect()
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing defines {}, so it is nil", self.name)?;
        match &self.meant {
            Some(meant) => write!(f, ": did you mean {meant}?"),
            None => Ok(()),
        }
    }
}

/// The known name that is nearest to another one, if every third letter at most differs.
fn meant(name: &str, known: &[String]) -> Option<String> {
    let globals = known.iter().map(String::as_str).chain(OF_RUNS.map(|(name, _)| name));
    let distances = globals.map(|known| (strsim::osa_distance(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.chars().count() / 3).then(|| nearest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_was_meant() {
        let known = ["tostring", "tonumber", "db", "db.query", "db.count", "log"].map(str::to_owned);
        let meant = |name| meant(name, &known);
        assert_eq!(meant("tostirng").as_deref(), Some("tostring"));
        assert_eq!(meant("db.qurey").as_deref(), Some("db.query"));
        assert_eq!(meant("caller_id").as_deref(), Some("caller_did"));
        assert_eq!(meant("redis"), None);
        assert_eq!(meant("x"), None);
    }
}
