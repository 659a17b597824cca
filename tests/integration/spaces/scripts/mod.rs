//! Scripts in spaces: they see and write what their caller may, and no more.

mod reads;
mod runs;
mod writes;

use http::Method;
use serde_json::{Value, json};

use super::Group;
use crate::fixtures::World;
use crate::support::instance::{Answer, query_lexicon};
use crate::support::plc::Person;

const NOTE: &str = "com.example.note";
const READ: &str = "com.example.read";

/// Calls the function that the parameter `what` names.
const READING: &str = r#"
local reads = {
  get = function() return db.get(params.uri) end,
  load = function() return Record.load(params.uri) end,
  load_all = function() return Record.load_all({ params.uri }) end,
  list = function()
    return db.query({ collection = "com.example.note", space = params.of, did = params.did, limit = params.limit,
      cursor = params.cursor, sortDirection = params.order })
  end,
  all = function() return atproto.spaces.query({ space_uri = params.of, did = params.did, cursor = params.cursor }) end,
  count = function() return db.count("com.example.note", params.did, params.of) end,
  is_member = function() return atproto.spaces.is_member(params.of, params.did) end,
  get_access = function() return atproto.spaces.get_access(params.of, params.did) end,
  list_members = function() return atproto.spaces.list_members(params.of, params.cursor) end,
  space = function() return space end,
}

function handle()
  return reads[params.what]()
end"#;

/// A script as its callers see it.
struct Stage {
    group: Group,
    space: String,
}

impl Stage {
    async fn of(world: World) -> Self {
        Self::with(Group::of(world).await).await
    }

    /// A space of Alice's with a note of hers, and the script.
    async fn with(group: Group) -> Self {
        let server = &group.world.server;
        server.upload(query_lexicon(READ), Some(NOTE)).await;
        server.bind(READ, READING).await;
        let space = group.space("main", json!({})).await;
        assert_eq!(group.note(&group.alice, &space, "a").await.status, 200);
        Self { group, space }
    }

    /// The script's answer to a person, or to an anonymous call.
    async fn read(&self, person: Option<&Person>, what: &str) -> Answer {
        self.group.call(person, Method::GET, &format!("{READ}?what={what}"), None).await
    }

    /// The value that the script returns to a person.
    async fn value(&self, person: &Person, what: &str) -> Value {
        let answer = self.read(Some(person), what).await;
        assert_eq!(answer.status, 200, "{what}: {}", answer.text);
        answer.body
    }
}

/// The texts of the records of a page.
fn texts(page: &Value) -> Vec<&str> {
    page["records"].as_array().unwrap().iter().map(|record| record["text"].as_str().unwrap()).collect()
}
