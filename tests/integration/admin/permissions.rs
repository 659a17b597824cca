//! `/admin/permissions`

use http::Method;
use serde_json::json;

crate::in_both_worlds! {
    async fn the_catalogue_and_the_templates_are_those_of_the_specification(world) {
        let answer = world.server.admin(Method::GET, "/admin/permissions", None).await;
        assert_eq!(answer.status, 200);
        let permissions = answer.body["permissions"].as_array().unwrap();
        assert_eq!(permissions[0]["key"], "lexicons:create");
        assert_eq!(permissions[0]["category"], "Lexicons");
        let keys: Vec<&str> = permissions.iter().map(|p| p["key"].as_str().unwrap()).collect();
        assert!(keys.contains(&"records:delete-collection") && keys.contains(&"jobs:manage"));
        let described = |key: &str| {
            permissions.iter().find(|p| p["key"] == key).unwrap()["description"].as_str().unwrap()
        };
        assert!(!described("plugins:create").contains("No endpoint"));
        assert_eq!(described("events:purge"), "Remove entries of the event log.");
        assert!(!keys.iter().any(|key| key.starts_with("spaces:")), "spaces are off");
        let templates = answer.body["templates"].as_array().unwrap();
        assert_eq!(templates[0]["key"], "viewer");
        assert_eq!(templates[0]["permissions"].as_array().unwrap().len(), 10);
        assert_eq!(templates[1]["permissions"].as_array().unwrap().len(), 14);
        let labels: Vec<_> = templates.iter().map(|t| t["label"].clone()).collect();
        assert_eq!(labels, [json!("Viewer"), json!("Operator"), json!("Manager"), json!("Full Access")]);
    }
}
