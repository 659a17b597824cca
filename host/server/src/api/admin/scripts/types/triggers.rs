//! The kinds of scripts: their globals, and a template for a new script of each.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_protocol::trigger::TriggerKind;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptTrigger {
    kind: &'static str,
    /// The part of an id after the kind: `nsid`, `nsid_or_actor` (`_actor`: labels on accounts), `job_type` or `name`.
    #[schemars(extend("enum" = ["nsid", "nsid_or_actor", "job_type", "name"]))]
    subject: &'static str,
    help: &'static str,
    globals: &'static [&'static str],
    template: &'static str,
}

/// Globals that only some kinds of runs have.
const SPECIAL: [&str; 19] = [
    "method",
    "params",
    "input",
    "collection",
    "caller_did",
    "delegate_did",
    "space",
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
    "job",
];

const QUERY: &[&str] = &["method", "params", "collection", "caller_did", "space", "env"];
/// A document has no globals.
const VIEW: &[&str] = &[];
const PROCEDURE: &[&str] =
    &["method", "params", "input", "collection", "caller_did", "delegate_did", "space", "env"];
const SUBSCRIPTION: &[&str] = &["event", "params", "collection", "env"];
const RECORD: &[&str] = &["event", "action", "uri", "did", "collection", "rkey", "record", "env"];
const LABEL: &[&str] = &["event", "src", "uri", "val", "neg", "cts", "exp", "env"];
const JOB: &[&str] = &["job", "caller_did", "env"];
const SETUP: &[&str] = &["env"];
/// A library has those of the run that requires it.
const LIBRARY: &[&str] = &SPECIAL;

const QUERY_TEMPLATE: &str = "\
function handle()
  local page = db.query({ collection = collection, did = params.did, limit = params.limit, cursor = params.cursor })
  return { records = toarray(page.records), cursor = page.cursor }
end
";
const VIEW_TEMPLATE: &str = r#"{
  "view": 1,
  "from": "com.example.post",
  "where": { "did": "$actor" },
  "with": { "author": { "profile": "did" } },
  "output": {
    "feed": [{ "uri": "@uri", "cid": "@cid", "author": "@author", "record": "@record" }],
    "cursor": "@cursor"
  }
}
"#;
const PROCEDURE_TEMPLATE: &str = "\
function handle()
  if not caller_did then error({ status = 401, error = \"AuthRequired\" }) end
  local record = Record(collection, input)
  record:save()
  return { uri = record._uri, cid = record._cid }
end
";
const SUBSCRIPTION_TEMPLATE: &str = "\
-- Return a message of the lexicon, an array of messages, or nil for none. It must not depend on the caller.
function handle()
  if event.action == \"delete\" then
    return { [\"$type\"] = \"delete\", uri = event.uri }
  end
  return { [\"$type\"] = \"create\", uri = event.uri, record = event.record }
end
";
const RECORD_TEMPLATE: &str = "\
-- Return nil to skip the record, a table to store it instead, and true to store the record as it is.
function handle()
  if action == \"delete\" then return true end
  return record
end
";
const DELETE_TEMPLATE: &str = "\
-- Return nil to keep the row of the deleted record, and true to delete it.
function handle()
  log(\"deleted: \" .. uri)
  return true
end
";
const LABEL_TEMPLATE: &str = "\
-- Return nil to drop the label, a table to change it, and true to keep it as it is.
function handle()
  return true
end
";
const JOB_TEMPLATE: &str = "\
function handle()
  local cursor, count = nil, 0
  repeat
    local page = db.query({ collection = job.input.collection, limit = 100, cursor = cursor })
    count = count + #page.records
    cursor = page.cursor
    job.progress({ count = count })
  until not cursor or job.should_stop()
  return { count = count }
end
";
const SCHEDULE_TEMPLATE: &str = "\
cron = \"30 3 * * *\"
timezone = \"UTC\"

function handle()
  local count = db.count({ collection = \"com.example.note\" })
  return { count = count }
end
";
const SETUP_TEMPLATE: &str = "\
-- Runs once, when it is saved. Make sure that it can run again, after a version that failed half-way.
function handle()
  db.raw(\"CREATE TABLE IF NOT EXISTS script_visits (page text PRIMARY KEY, n integer NOT NULL)\")
end
";
const LIBRARY_TEMPLATE: &str = "\
-- Others get this table with require(\"NAME\"). It is made once in a run.
local posts = {}

function posts.path(uri)
  return (uri:gsub(\"^at://\", \"/\"))
end

return posts
";

fn view(kind: TriggerKind) -> ScriptTrigger {
    let (subject, help, globals, template) = match kind {
        TriggerKind::Query => ("nsid", "Answers a query method.", QUERY, QUERY_TEMPLATE),
        TriggerKind::View => ("nsid", "Answers a query method without code.", VIEW, VIEW_TEMPLATE),
        TriggerKind::Procedure => ("nsid", "Answers a procedure method.", PROCEDURE, PROCEDURE_TEMPLATE),
        TriggerKind::Subscription => (
            "nsid",
            "Makes the messages of a subscription, of each change of its collection.",
            SUBSCRIPTION,
            SUBSCRIPTION_TEMPLATE,
        ),
        TriggerKind::RecordCreate => {
            ("nsid", "Decides on each new record of a collection.", RECORD, RECORD_TEMPLATE)
        }
        TriggerKind::RecordUpdate => {
            ("nsid", "Decides on each changed record of a collection.", RECORD, RECORD_TEMPLATE)
        }
        TriggerKind::RecordDelete => {
            ("nsid", "Decides on each deleted record of a collection.", RECORD, DELETE_TEMPLATE)
        }
        TriggerKind::RecordIndex => (
            "nsid",
            "Decides on each event of a collection that has no script of its own.",
            RECORD,
            RECORD_TEMPLATE,
        ),
        TriggerKind::LabelApply => (
            "nsid_or_actor",
            "Decides on each label on the records of a collection, or with _actor on accounts.",
            LABEL,
            LABEL_TEMPLATE,
        ),
        TriggerKind::JobRun => ("job_type", "Runs background jobs of a type.", JOB, JOB_TEMPLATE),
        TriggerKind::Schedule => {
            ("name", "Runs as a job, at the times that it says with cron.", JOB, SCHEDULE_TEMPLATE)
        }
        TriggerKind::Setup => {
            ("name", "Runs once, when it is saved: makes tables for other scripts.", SETUP, SETUP_TEMPLATE)
        }
        TriggerKind::Library => {
            ("name", "Code that other scripts get with require(\"NAME\").", LIBRARY, LIBRARY_TEMPLATE)
        }
    };
    ScriptTrigger { kind: kind.as_str(), subject, help, globals, template }
}

pub(super) fn all() -> Vec<ScriptTrigger> {
    TriggerKind::ALL.into_iter().map(view).collect()
}

/// Whether a run of this kind has the global, or the global to which the function belongs.
pub(super) fn has(kind: TriggerKind, name: &str) -> bool {
    let global = name.split('.').next().unwrap_or(name);
    !SPECIAL.contains(&global) || view(kind).globals.contains(&global)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globals_belong_to_their_kinds() {
        assert!(has(TriggerKind::Query, "db.query") && has(TriggerKind::Query, "params"));
        assert!(!has(TriggerKind::Query, "input") && !has(TriggerKind::Query, "job.progress"));
        assert!(has(TriggerKind::JobRun, "job.progress") && !has(TriggerKind::JobRun, "record"));
        let named: Vec<&str> = all()
            .iter()
            .flat_map(|view| view.globals.iter().copied())
            .filter(|global| *global != "env")
            .collect();
        assert!(named.iter().all(|global| SPECIAL.contains(global)));
        assert!(SPECIAL.iter().all(|special| named.contains(special)));
    }
}
