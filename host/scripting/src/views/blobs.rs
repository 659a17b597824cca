//! The servers of the blobs whose URLs an answer has.

use std::collections::HashSet;

use belvedere_instance::blob_hosts::BlobHosts;
use belvedere_instance::identity::Resolver;
use belvedere_storage::query::Path;

use super::level::{Column, Level, Row};
use super::limits;
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
    let mut seen = HashSet::new();
    dids.retain(|did| seen.insert(*did));
    // The blobs of others have no URL: each look-up is a request to the directory.
    dids.truncate(limits::BLOB_HOSTS);
    BlobHosts::of_accounts(resolver, dids).await
}

fn collect<'a>(output: &Template, additions: &[Addition], level: &'a Level, dids: &mut Vec<&'a str>) {
    let mut paths = Vec::new();
    paths_of_blobs(output, &mut paths);
    let has_blob = |row: &&Row| paths.iter().any(|path| row.field(path).is_some());
    dids.extend(level.rows.iter().filter(has_blob).map(|row| row.did.as_str()));
    for (addition, column) in additions.iter().zip(&level.columns) {
        if let (Some(joined), Column::One(below, _) | Column::Many(below, _)) =
            (addition.kind.joined(), column)
        {
            collect(&joined.output, &joined.additions, below, dids);
        }
    }
}

fn paths_of_blobs<'a>(template: &'a Template, paths: &mut Vec<&'a Path>) {
    match template {
        Template::Insert(Insert::Blob(path)) => paths.push(path),
        Template::Insert(_) | Template::Constant(_) => {}
        Template::Object { fields, .. } => {
            for (_, field) in fields {
                paths_of_blobs(field, paths);
            }
        }
        Template::Array(elements) => {
            for element in elements {
                paths_of_blobs(element, paths);
            }
        }
        Template::Rows(row) => paths_of_blobs(row, paths),
    }
}
