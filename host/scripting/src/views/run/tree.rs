//! Reads a tree of records level by level: the root, the records that link to it, those that link to these, and so on.

use std::collections::HashSet;

use belvedere_storage::query::{Below, Links};
use belvedere_storage::store::records::{Room, below};

use super::{Found, Run};
use crate::views::error::ViewError;
use crate::views::level::Row;
use crate::views::limits;
use crate::views::operand::Operand;

impl Run<'_> {
    /// The records of a tree, the root first, and for each the positions of those below it, oldest first. A record that is below two
    /// others is only below the first. One statement reads a level. The tree ends at the limit and at [`limits::TREE_BYTES`], with the last
    /// records of its deepest level missing.
    pub(super) async fn tree(
        &mut self,
        root: Row,
        links: Links,
        depth: Option<&Operand>,
        limit: u32,
    ) -> Result<Found, ViewError> {
        let depth = depth.and_then(|depth| depth.value(self.arguments)?.as_u64());
        let depth = depth.map_or(limits::DEPTH_DEFAULT, |depth| {
            u32::try_from(depth).unwrap_or(u32::MAX).min(limits::DEPTH)
        });
        let limit = limit.min(limits::TREE);
        let mut wanted = Below { links, limit, hidden: self.hidden.clone() };
        let mut seen: HashSet<String> = root.uri().into_iter().collect();
        let (mut rows, mut children) = (vec![root], vec![Vec::new()]);
        let (mut level, mut room) = (0..1, Room { all: limits::TREE_BYTES, ..self.budget.room() });
        for _ in 0..depth {
            let targets: Vec<String> = rows[level.clone()].iter().filter_map(Row::uri).collect();
            let left = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            if targets.is_empty() || left == 0 {
                break;
            }
            wanted.limit = left;
            let page = below::read(self.reads.db, &wanted, &targets, room, self.reads.tenant).await?;
            let below = rows.len();
            for found in page.rows {
                room.all = room.all.saturating_sub(found.row.record.len());
                let row = Row::of_record(found.row);
                if row.uri().is_some_and(|uri| seen.insert(uri)) && self.budget.take(&row) {
                    children[level.start + found.target].push(rows.len());
                    rows.push(row);
                    children.push(Vec::new());
                }
            }
            level = below..rows.len();
            if page.next.is_some() {
                break;
            }
        }
        Ok(Found { rows, children, ..Found::default() })
    }
}
