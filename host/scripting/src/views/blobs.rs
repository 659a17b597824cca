//! The servers of the blobs whose URLs an answer has.

use belvedere_instance::blob_hosts::BlobHosts;
use belvedere_instance::identity::Resolver;

use super::level::{Column, Level};
use super::plan::{Addition, Insert, Template};

/// The PDS of each author of a row whose form has the URL of a blob.
pub(super) async fn hosts(
    resolver: &Resolver,
    output: &Template,
    additions: &[Addition],
    level: &Level,
) -> BlobHosts {
    let mut dids = Vec::new();
    collect(output, additions, level, &mut dids);
    dids.sort_unstable();
    dids.dedup();
    BlobHosts::of_accounts(resolver, dids).await
}

fn collect<'a>(output: &Template, additions: &[Addition], level: &'a Level, dids: &mut Vec<&'a str>) {
    if has_blob(output) {
        dids.extend(level.rows.iter().filter(|row| row.record.is_some()).map(|row| row.did.as_str()));
    }
    for (addition, column) in additions.iter().zip(&level.columns) {
        if let (Some(joined), Column::One(below, _) | Column::Many(below, _)) =
            (addition.kind.joined(), column)
        {
            collect(&joined.output, &joined.additions, below, dids);
        }
    }
}

fn has_blob(template: &Template) -> bool {
    match template {
        Template::Insert(insert) => matches!(insert, Insert::Blob(_)),
        Template::Object { fields, .. } => fields.iter().any(|(_, field)| has_blob(field)),
        Template::Array(elements) => elements.iter().any(has_blob),
        Template::Rows(row) => has_blob(row),
        Template::Constant(_) => false,
    }
}
