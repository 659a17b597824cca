//! The order in which scripts are stored: a library before the scripts that require it, because the server refuses a script whose
//! libraries are missing; and setup scripts before those that use their tables.

use std::collections::HashMap;

use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::mentions::{MentionKind, mentions};

/// The place of each script in the order, by its id: 0 for libraries that require no other.
pub(super) struct Order<'a>(HashMap<&'a str, usize>);

impl<'a> Order<'a> {
    /// The order of these scripts, given as (trigger id, source).
    pub(super) fn of(scripts: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let required: HashMap<&str, Vec<&str>> =
            scripts.filter_map(|(id, source)| Some((library(id)?, required(source)))).collect();
        let mut places = HashMap::new();
        // Each round places the libraries whose own are placed. Those that require each other in a circle get no place.
        for place in 0..required.len() {
            let is_placed = |name: &&str| !required.contains_key(name) || places.contains_key(name);
            let next: Vec<&str> = required
                .iter()
                .filter(|(name, others)| !places.contains_key(*name) && others.iter().all(is_placed))
                .map(|(name, _)| *name)
                .collect();
            if next.is_empty() {
                break;
            }
            places.extend(next.into_iter().map(|name| (name, place)));
        }
        Self(places)
    }

    /// A key that sorts scripts into the order.
    pub(super) fn place(&self, id: &str) -> usize {
        let of_others = if kind(id) == TriggerKind::Setup.as_str() { usize::MAX - 1 } else { usize::MAX };
        library(id).and_then(|name| self.0.get(name)).copied().unwrap_or(of_others)
    }
}

fn kind(id: &str) -> &str {
    id.split(':').next().unwrap_or(id)
}

/// The name of a library, from its trigger id.
fn library(id: &str) -> Option<&str> {
    id.strip_prefix(TriggerKind::Library.as_str())?.strip_prefix(':')
}

fn required(source: &str) -> Vec<&str> {
    let libraries = mentions(source).into_iter().filter(|mention| mention.kind == MentionKind::Library);
    libraries.map(|mention| mention.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_before_those_that_require_them() {
        let scripts = [
            ("job.run:a", "require('a')"),
            ("setup:z", ""),
            ("lib:a", "require('b') require('c')"),
            ("lib:b", "require('c') require('elsewhere')"),
            ("lib:c", ""),
            ("lib:x", "require('y')"),
            ("lib:y", "require('x')"),
        ];
        let order = Order::of(scripts.into_iter());
        let mut ids = scripts.map(|(id, _)| id);
        ids.sort_by_key(|id| (order.place(id), *id));
        assert_eq!(ids, ["lib:c", "lib:b", "lib:a", "setup:z", "job.run:a", "lib:x", "lib:y"]);
    }
}
