//! Compares the description with the route table and with the committed document.

use std::collections::BTreeSet;
use std::path::Path;

use super::document::{document, text};
use super::notation::Api;
use crate::api::routes;
use crate::methods::spaces;

/// The path of a written document that differs from the committed one.
const CURRENT: &str = concat!(env!("OUT_DIR"), "/openapi.json");

/// The paths that are described. The others are not for the dashboard.
const DESCRIBED: [&str; 4] = ["/admin/", "/auth/", "/external-auth/", "/api/setup/"];

fn api() -> Api {
    let mut api = Api::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/openapi");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "api"));
    files.sort();
    for file in files {
        api.read(&file.display().to_string(), &std::fs::read_to_string(&file).unwrap());
    }
    api
}

#[test]
fn every_route_is_described() {
    let routes: BTreeSet<(String, String)> = routes::table()
        .iter()
        .filter(|route| !spaces::ADMIN_PATHS.contains(&route.path()))
        .filter(|route| {
            DESCRIBED.iter().any(|prefix| route.path().starts_with(prefix)) || route.path() == "/config"
        })
        .map(|route| (route.path().to_owned(), route.method().to_string()))
        .collect();
    let described: BTreeSet<_> = api().operations.into_iter().map(|o| (o.path, o.method)).collect();
    let missing: Vec<_> = routes.difference(&described).collect();
    let surplus: Vec<_> = described.difference(&routes).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "not described: {missing:?}; no routes: {surplus:?}");
}

#[test]
fn the_committed_document_is_current() {
    let text = text(&document(&api(), &routes::table()));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/openapi.json");
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if committed != text {
        std::fs::write(CURRENT, &text).unwrap();
        panic!(
            "dashboard/openapi.json is not what the files *.api and the route table say: cp {CURRENT} dashboard/, look \
                at the difference, and commit it"
        );
    }
}
