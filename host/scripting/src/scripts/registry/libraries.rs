//! Libraries: scripts of the kind `lib`, which others get with `require("NAME")`. Names in literals are looked up when a script
//! is saved; those that are computed, when it runs.

use std::collections::HashSet;
use std::sync::Arc;

use super::{CompiledScript, ScriptSet};
use crate::scripts::contract;
use crate::scripts::mentions::Required;
use crate::scripts::{FailureKind, ScriptFailure};
use belvedere_protocol::trigger::TriggerKind;

impl ScriptSet {
    /// The library of this name.
    pub(in crate::scripts) fn library(&self, name: &str) -> Option<&Arc<CompiledScript>> {
        self.get(&format!("{}:{name}", TriggerKind::Library.as_str()))
    }

    /// Checks that the libraries exist that a script requires, and those that these require, and that none requires itself.
    ///
    /// # Errors
    /// The place of the first name that is wrong.
    pub(in crate::scripts) fn check_required(&self, script: &CompiledScript) -> Result<(), ScriptFailure> {
        let mut checked = HashSet::new();
        // The scripts that require each other, from the given one on, and which of its names each has reached.
        let mut path = vec![(script, 0)];
        while let Some((user, reached)) = path.last_mut() {
            let user = *user;
            let Some(required) = user.required.get(*reached) else {
                checked.insert(&*user.name);
                path.pop();
                continue;
            };
            *reached += 1;
            if contract::is_module(&required.name) {
                continue;
            }
            // The script itself may be stored in another version, or not yet.
            let is_itself =
                script.trigger.kind() == TriggerKind::Library && script.trigger.subject() == &*required.name;
            let stored = self.library(&required.name).map(|library| &**library);
            let Some(library) = (if is_itself { Some(script) } else { stored }) else {
                let text = contract::unknown_module(&required.name)
                    .unwrap_or_else(|| format!("there is no library {:?}: save it first", required.name));
                return Err(at(script, user, required, &text));
            };
            if path.iter().any(|(user, _)| user.name == library.name) {
                let names: Vec<&str> = path.iter().map(|(user, _)| user.trigger.subject()).collect();
                let from = path.iter().position(|(user, _)| user.name == library.name).unwrap_or_default();
                let text = format!(
                    "libraries require each other in a circle: {} → {}",
                    names[from..].join(" → "),
                    library.trigger.subject()
                );
                return Err(at(script, user, required, &text));
            }
            if !checked.contains(&*library.name) {
                path.push((library, 0));
            }
        }
        Ok(())
    }

    /// The scripts that require a library, themselves or by other libraries, by trigger id.
    pub fn users_of(&self, library: &str) -> Vec<Arc<CompiledScript>> {
        let mut names: HashSet<&str> = HashSet::from([library]);
        let mut users: Vec<&Arc<CompiledScript>> = Vec::new();
        loop {
            let before = users.len();
            for script in self.by_trigger.values() {
                let uses_it = script.required.iter().any(|required| names.contains(&*required.name));
                if uses_it && !users.iter().any(|user| user.name == script.name) {
                    users.push(script);
                }
            }
            if users.len() == before {
                break;
            }
            let libraries = users.iter().filter(|user| user.trigger.kind() == TriggerKind::Library);
            names.extend(libraries.map(|user| user.trigger.subject()));
        }
        users.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        users.into_iter().cloned().collect()
    }

    /// Whether a script or a library that it requires names a method for which `is_other` holds.
    pub fn calls_any(&self, script: &CompiledScript, is_other: impl Fn(&str) -> bool) -> bool {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut left = vec![script];
        while let Some(script) = left.pop() {
            if script.methods.iter().any(|method| is_other(method)) {
                return true;
            }
            let libraries = script.required.iter().filter_map(|required| self.library(&required.name));
            left.extend(libraries.map(|library| &**library).filter(|library| seen.insert(&library.name)));
        }
        false
    }
}

/// A failure at the place where `user` requires a library, for who saves `script`.
fn at(script: &CompiledScript, user: &CompiledScript, required: &Required, text: &str) -> ScriptFailure {
    let message = format!("{}:{}: {text}", user.name, required.line);
    let line = (user.name == script.name).then_some(required.line);
    ScriptFailure { line, ..ScriptFailure::new(FailureKind::Runtime, message) }
}
