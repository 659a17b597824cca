//! Reads a tree of records level by level: the root, the records that link to it, those that link to these, and so on.

use std::collections::HashSet;

use belvedere_storage::query::Links;

use super::Run;
use super::joins::replies;
use crate::views::error::ViewError;
use crate::views::level::Row;
use crate::views::limits;
use crate::views::operand::Operand;

impl Run<'_> {
    /// The records of a tree, the root first, and for each the positions of those below it. A record that is below two
    /// others is only below the first.
    pub(super) async fn tree(
        &mut self,
        root: Row,
        links: Links,
        depth: Option<&Operand>,
        limit: u32,
    ) -> Result<(Vec<Row>, Vec<Vec<usize>>), ViewError> {
        let depth = depth.and_then(|depth| depth.value(self.arguments)?.as_u64());
        let depth = depth.map_or(limits::DEPTH_DEFAULT, |depth| {
            u32::try_from(depth).unwrap_or(u32::MAX).min(limits::DEPTH)
        });
        let limit = limit.min(limits::TREE) as usize;
        let wanted = replies(links, limits::TREE_BRANCHES, self);
        let mut seen: HashSet<String> = root.uri().into_iter().collect();
        let (mut rows, mut children) = (vec![root], vec![Vec::new()]);
        let mut level = 0..1;
        for _ in 0..depth {
            let targets: Vec<String> = rows[level.clone()].iter().filter_map(Row::uri).collect();
            if targets.is_empty() || rows.len() >= limit {
                break;
            }
            let below = rows.len();
            for (target, record) in self.related(&wanted, &targets).await? {
                let row = Row::of_record(record);
                let is_new = row.uri().is_some_and(|uri| seen.insert(uri));
                if is_new && rows.len() < limit {
                    children[level.start + target].push(rows.len());
                    rows.push(row);
                    children.push(Vec::new());
                }
            }
            level = below..rows.len();
        }
        Ok((rows, children))
    }
}
