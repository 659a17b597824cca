//! `/admin/permissions`

use http::Method;
use serde_json::json;

use crate::fixtures::{BOB, World};
use crate::support::instance::OPERATOR;
use crate::support::openapi::operations_with_permissions;

/// Whatever a page of the dashboard calls, the server refuses it to those who lack its permission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_is_refused_without_its_permission() {
    const OWN: &str = "stats:read";
    let world = World::sqlite().await;
    let server = &world.server;
    // While spaces are switched off, their operations are refused for another reason.
    let on = json!({ "value": "true" });
    let on = server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&on)).await;
    assert_eq!(on.status, 204, "{}", on.text);
    let key = server.create_key(&["--did", BOB, "--permissions", OWN]);
    let authorization = format!("Bearer {key}");
    let is_json = ("content-type", "application/json");
    let operations = operations_with_permissions();
    assert!(operations.len() > 100, "{}", operations.len());
    for (method, path, needed) in operations {
        let anonymous = server.request(method.clone(), &path, &[is_json], Some("{}".to_owned())).await;
        assert_eq!(anonymous.status, 401, "{method} {path} {}", anonymous.text);
        if needed == [OWN] {
            continue;
        }
        let headers = [("authorization", authorization.as_str()), is_json];
        let refused = server.request(method.clone(), &path, &headers, Some("{}".to_owned())).await;
        assert_eq!(refused.status, 403, "{method} {path} {}", refused.text);
        assert!(needed.iter().any(|name| refused.text.contains(name)), "{method} {path} {}", refused.text);
    }
}

/// Those of the specification while spaces are off, in its order.
const CATEGORIES: [&str; 16] = [
    "Lexicons",
    "Records",
    "Scripts",
    "Script Variables",
    "Users",
    "API Keys",
    "Backfill",
    "System",
    "Moderation",
    "Labelers",
    "Settings",
    "Plugins",
    "API Clients",
    "Dead Letters",
    "Jobs",
    "Linked Repos",
];

crate::in_both_worlds!(the_catalogue_and_the_templates_are_those_of_the_specification);

async fn the_catalogue_and_the_templates_are_those_of_the_specification(world: World) {
    let answer = world.server.admin(Method::GET, "/admin/permissions", None).await;
    assert_eq!(answer.status, 200);
    let permissions = answer.body["permissions"].as_array().unwrap();
    assert_eq!(permissions[0]["key"], "lexicons:create");
    let mut categories: Vec<&str> = permissions.iter().map(|p| p["category"].as_str().unwrap()).collect();
    categories.dedup();
    assert_eq!(categories, CATEGORIES);
    let keys: Vec<&str> = permissions.iter().map(|p| p["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"records:delete-collection") && keys.contains(&"jobs:manage"));
    let described =
        |key: &str| permissions.iter().find(|p| p["key"] == key).unwrap()["description"].as_str().unwrap();
    assert!(!described("plugins:create").contains("No endpoint"));
    assert_eq!(described("events:purge"), "Remove entries of the event log.");
    assert!(!keys.iter().any(|key| key.starts_with("spaces:")), "spaces are off");
    let templates = answer.body["templates"].as_array().unwrap();
    assert_eq!(templates[0]["key"], "viewer");
    assert_eq!(templates[0]["permissions"].as_array().unwrap().len(), 10);
    assert_eq!(templates[1]["permissions"].as_array().unwrap().len(), 14);
    let labels: Vec<_> = templates.iter().map(|t| t["label"].clone()).collect();
    // A key that has all permissions of the list can use every template, and grants nothing that is not listed.
    let key = world.server.create_key(&["--did", OPERATOR, "--permissions", &keys.join(",")]);
    let body = json!({ "did": BOB, "template": "full_access", "unchecked": true }).to_string();
    let headers = [("authorization", &*format!("Bearer {key}")), ("content-type", "application/json")];
    let made = world.server.request(Method::POST, "/admin/users", &headers, Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let mut granted: Vec<&str> =
        made.body["permissions"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    let mut listed = keys.clone();
    granted.sort_unstable();
    listed.sort_unstable();
    assert_eq!(granted, listed);
    assert_eq!(labels, [json!("Viewer"), json!("Operator"), json!("Manager"), json!("Full Access")]);
}
