//! The parameters of a view and their use, which decides on the type that the lexicon declares.

use belvedere_protocol::atproto::Nsid;

use super::conditions::{Conditions, FieldCondition, Operands};
use super::operand::Operand;
use super::plan::{Source, View};

/// The use of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A text, a number, true or false.
    Scalar,
    Array,
    /// A DID or a handle, or an array of them.
    Account,
    /// An AT URI, perhaps with a handle.
    Uri,
    Number,
    /// A time as text.
    Time,
}

/// A parameter where a view uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterUse<'a> {
    pub name: &'a str,
    pub form: Form,
    /// Its place in the document.
    pub at: &'static str,
}

impl View {
    /// All uses of parameters.
    pub fn parameters(&self) -> Vec<ParameterUse<'_>> {
        let mut uses = Uses(Vec::new());
        match &self.source {
            Source::List { linked_from, .. } => {
                if let Some((account, _)) = linked_from {
                    uses.add(account, Form::Account, "from.did.linkedFrom");
                }
            }
            Source::Record { uri, .. } => uses.add(uri, Form::Uri, "from.uri"),
            Source::Tree { root, depth, .. } => {
                uses.add(root, Form::Uri, "from.tree");
                if let Some(depth) = depth {
                    uses.add(depth, Form::Number, "from.depth");
                }
            }
        }
        let Conditions { did, rkey, indexed_at, fields } = &self.conditions;
        for operand in did.iter().flat_map(Operands::all) {
            uses.add(operand, Form::Account, "where.did");
        }
        if let Some(rkey) = rkey {
            uses.add(rkey, Form::Scalar, "where.rkey");
        }
        for (_, operand) in indexed_at {
            uses.add(operand, Form::Time, "where.indexedAt");
        }
        uses.add_fields(fields);
        if let Some(limit) = self.group.as_ref().and_then(|group| group.limit.as_ref()) {
            uses.add(limit, Form::Number, "group.limit");
        }
        uses.0
    }

    /// The parameter with the URI of the record that the view shows, and the only collection that it may be of.
    pub fn record_parameter(&self) -> Option<(&str, &Nsid)> {
        let (operand, collection) = match &self.source {
            Source::Record { uri, collection } => (uri, collection.as_ref()?),
            Source::Tree { root, links, .. } => (root, &links.collection),
            Source::List { .. } => return None,
        };
        if let Operand::Parameter(name) = operand { Some((name, collection)) } else { None }
    }

    /// Whether the rows depend on the viewer, so that an anonymous call has no answer.
    pub(super) fn needs_viewer(&self) -> bool {
        let of_source = match &self.source {
            Source::List { linked_from, .. } => linked_from.as_ref().map(|(account, _)| account),
            Source::Record { .. } | Source::Tree { .. } => None,
        };
        let Conditions { did, rkey, indexed_at, fields } = &self.conditions;
        let rows = did.iter().flat_map(Operands::all).chain(rkey).chain(of_source);
        let mut all = rows.chain(indexed_at.iter().map(|(_, operand)| operand));
        all.any(|operand| *operand == Operand::Viewer) || fields.iter().any(names_viewer)
    }
}

fn names_viewer(condition: &FieldCondition) -> bool {
    match condition {
        FieldCondition::Test { value, .. } => value.all().contains(&Operand::Viewer),
        FieldCondition::Missing { .. } => false,
        FieldCondition::Any(parts) | FieldCondition::All(parts) => parts.iter().flatten().any(names_viewer),
    }
}

struct Uses<'a>(Vec<ParameterUse<'a>>);

impl<'a> Uses<'a> {
    fn add(&mut self, operand: &'a Operand, form: Form, at: &'static str) {
        if let Operand::Parameter(name) = operand {
            self.0.push(ParameterUse { name, form, at });
        }
    }

    fn add_fields(&mut self, conditions: &'a [FieldCondition]) {
        for condition in conditions {
            match condition {
                FieldCondition::Test { value, .. } => {
                    let form = if matches!(value, Operands::Array(_)) { Form::Array } else { Form::Scalar };
                    for operand in value.all() {
                        self.add(operand, form, "where");
                    }
                }
                FieldCondition::Missing { .. } => {}
                FieldCondition::Any(parts) | FieldCondition::All(parts) => {
                    for part in parts {
                        self.add_fields(part);
                    }
                }
            }
        }
    }
}
