//! The annotations for editors (`guest-lua/belvedere.d.lua`) declare exactly the API of scripts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixtures::World;
use crate::support::instance::query_lexicon;

/// Lists the globals of a query script that are not Lua's own, one name per line, tables with their functions.
const LIST: &str = r"
local own = { _G = true, _VERSION = true, handle = true, coroutine = true, math = true, os = true, string = true,
  table = true, utf8 = true, assert = true, error = true, getmetatable = true, ipairs = true, next = true, pairs = true,
  pcall = true, print = true, rawequal = true, rawget = true, rawlen = true, rawset = true, select = true,
  setmetatable = true, tonumber = true, tostring = true, type = true, warn = true, xpcall = true }

function handle()
  local names = toarray({})
  for name, value in pairs(_G) do
    if type(value) == 'table' and not own[name] and name ~= 'params' and name ~= 'env' then
      for field, inner in pairs(value) do
        if type(inner) == 'table' then
          for deeper in pairs(inner) do table.insert(names, name .. '.' .. field .. '.' .. deeper) end
        else
          table.insert(names, name .. '.' .. field)
        end
      end
    elseif not own[name] then
      table.insert(names, name)
    end
  end
  return names
end";

/// Names that only other kinds of runs have.
const ELSEWHERE: &[&str] = &[
    "atproto.blob_upload",
    "event",
    "action",
    "uri",
    "did",
    "rkey",
    "record",
    "src",
    "val",
    "neg",
    "cts",
    "exp",
    "job.id",
    "job.input",
    "job.progress",
    "job.should_stop",
    "job.wait",
];

/// The functions and fields that the annotations declare.
fn annotated() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-lua/belvedere.d.lua");
    let text = fs::read_to_string(path).unwrap();
    let mut names = BTreeSet::new();
    let mut class = "";
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("function ") {
            names.insert(declared.split('(').next().unwrap().replace(':', "."));
        } else if let Some(name) = line.strip_prefix("---@class belvedere.") {
            class = name.split(':').next().unwrap();
        } else if let Some(field) = line.strip_prefix("---@field ") {
            let field = field.split([' ', '?']).next().unwrap();
            if class.starts_with(char::is_lowercase) {
                names.insert(format!("{class}.{field}"));
            }
        } else if let Some((name, "nil")) = line.split_once(" = ") {
            names.insert(name.to_owned());
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_annotations_match_the_api_of_scripts() {
    let world = World::sqlite().await;
    world.server.upload(query_lexicon("com.example.globals"), Some("com.example.note")).await;
    world.server.bind("com.example.globals", LIST).await;
    let answer = world.server.xrpc("com.example.globals").await;
    let there: BTreeSet<String> =
        serde_json::from_value(answer.body.clone()).unwrap_or_else(|_| panic!("{}", answer.text));
    let annotated = annotated();
    let missing: Vec<_> = there.difference(&annotated).collect();
    assert!(missing.is_empty(), "guest-lua/belvedere.d.lua lacks {missing:?}");
    let given = ["caller_did", "delegate_did", "env", "input", "params", "params_raw", "space"];
    let invented: Vec<_> = annotated
        .difference(&there)
        .filter(|name| !given.contains(&name.as_str()) && !ELSEWHERE.contains(&name.as_str()))
        .collect();
    assert!(invented.is_empty(), "no run has {invented:?}");
    assert_ne!(answer.body, Value::Null);
}
