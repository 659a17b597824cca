//! The indexes of fields that a view's list can use. Storing a view asks for them, and `explain` lists them.

use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::{Path, SortKey};
use belvedere_storage::store::fields::{self, IndexKind};
use belvedere_storage::store::{Db, StoreError};

use super::conditions::{FieldCondition, FieldTest, Operands};
use super::operand::Operand;
use super::plan::{Source, View};

#[derive(Default)]
pub(super) struct Needs<'a> {
    /// Each once.
    pub(super) indexes: Vec<Field<'a>>,
    /// The parts of the document that no index serves.
    pub(super) unserved: Vec<String>,
}

/// A field with the purpose of its index.
#[derive(PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) collection: &'a Nsid,
    pub(super) path: &'a Path,
    pub(super) kind: IndexKind,
}

impl<'a> Needs<'a> {
    pub(super) fn of(view: &'a View) -> Self {
        let mut needs = Self::default();
        let Source::List { collection, linked_from } = &view.source else { return needs };
        // The records of one account are read in the order of time, by no index of a field.
        let is_always_given = |operand: &Operand| !matches!(operand, Operand::Parameter(_));
        let by_account =
            matches!(&view.conditions.did, Some(Operands::One(account)) if is_always_given(account));
        if linked_from.is_some() || by_account {
            return needs;
        }
        needs.add(collection, &view.conditions.fields);
        if let Some(order) = &view.order {
            match &order.key {
                _ if !order.then.is_empty() => needs.unserved.push("an order by several fields".to_owned()),
                SortKey::Field(path) => needs.add_index(Field { collection, path, kind: IndexKind::Sort }),
                _ => {}
            }
        }
        needs
    }

    /// Adds conditions that all hold.
    fn add(&mut self, collection: &'a Nsid, conditions: &'a [FieldCondition]) {
        for condition in conditions {
            match condition {
                FieldCondition::Test { path, test: FieldTest::Contains, .. } => {
                    self.unserved.push(format!("contains of {path}"));
                }
                FieldCondition::Test { path, .. } => {
                    self.add_index(Field { collection, path, kind: IndexKind::Filter });
                }
                FieldCondition::Missing { path, .. } => self.unserved.push(format!("missing of {path}")),
                FieldCondition::All(parts) => {
                    for part in parts {
                        self.add(collection, part);
                    }
                }
                FieldCondition::Any(alternatives) => match &alternatives[..] {
                    [only] => self.add(collection, only),
                    // A record may match by any of them, so that the index of one does not have them all.
                    _ => self.unserved.push("any".to_owned()),
                },
            }
        }
    }

    fn add_index(&mut self, field: Field<'a>) {
        if !self.indexes.contains(&field) {
            self.indexes.push(field);
        }
    }
}

/// Asks for the indexes of the fields that a view uses. They are built in the background.
///
/// # Errors
/// When the store can't be read.
pub async fn request_indexes(db: &Db, view: &View) -> Result<(), StoreError> {
    for Field { collection, path, kind } in Needs::of(view).indexes {
        fields::request(db, collection, path, kind).await?;
    }
    Ok(())
}
