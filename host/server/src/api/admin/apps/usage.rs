//! Gathers what belongs to each app, and what it was used for.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::history::{Measure, Total, totals};
use belvedere_protocol::atproto::app_of;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::{StoreError, api_clients, lexicons, records, scripts};

/// The parts of an app.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct AppUsage {
    /// By id.
    pub lexicons: Vec<LexiconUsage>,
    /// By id. Scripts of jobs and of labels on accounts belong to no app.
    pub scripts: Vec<ScriptUsage>,
    /// With the most calls first.
    pub clients: Vec<AppCaller>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LexiconUsage {
    #[schemars(extend("format" = "nsid"))]
    pub id: String,
    pub lexicon_type: String,
    pub source: String,
    /// Indexed records, of a record lexicon.
    pub records: Option<u64>,
    pub calls: u64,
    /// Calls that this server failed to answer (5xx).
    pub errors: u64,
    /// Milliseconds that a call took on average.
    pub mean_ms: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ScriptUsage {
    /// The trigger.
    pub id: String,
    pub is_view: bool,
    pub description: Option<String>,
    /// Runs of a script, calls of a view.
    pub runs: u64,
    pub failures: u64,
    /// Instructions of all runs.
    pub instructions: u64,
    /// Milliseconds in which a run of a script computed on average, and that a call of a view took.
    pub mean_ms: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AppCaller {
    /// The id of the API client; `(none)` for callers that named none, `(refused)` for those that were not admitted.
    pub id: String,
    /// Whether the id is that of a client.
    pub is_client: bool,
    /// Null for a client that was deleted, and for callers that are none.
    pub name: Option<String>,
    pub calls: u64,
}

/// The calls of each method.
struct Calls {
    all: HashMap<String, Total>,
    /// Those that this server failed to answer.
    errors: HashMap<String, Total>,
}

/// All apps, by name.
pub(super) async fn read(
    app: &App,
    period: (Timestamp, Timestamp),
) -> Result<BTreeMap<String, AppUsage>, StoreError> {
    let mut apps = BTreeMap::<String, AppUsage>::new();
    let calls = Calls {
        all: totals(&app.db, Measure::Requests, period).await?,
        errors: totals(&app.db, Measure::RequestErrors, period).await?,
    };
    add_lexicons(app, &calls, &mut apps).await?;
    add_scripts(app, period, &calls, &mut apps).await?;
    add_clients(app, period, &mut apps).await?;
    Ok(apps)
}

async fn add_lexicons(
    app: &App,
    calls: &Calls,
    apps: &mut BTreeMap<String, AppUsage>,
) -> Result<(), StoreError> {
    let counts = records::collection_counts(&app.db).await?;
    let counts: HashMap<String, u64> = counts.into_iter().map(|one| (one.collection, one.records)).collect();
    for row in lexicons::versions(&app.db).await? {
        let called = of(&calls.all, &row.id);
        let lexicon = LexiconUsage {
            records: (row.lexicon_type == "record").then(|| counts.get(&row.id).copied().unwrap_or_default()),
            calls: called.count,
            errors: of(&calls.errors, &row.id).count,
            mean_ms: called.mean(),
            lexicon_type: row.lexicon_type,
            source: row.source,
            id: row.id,
        };
        apps.entry(app_of(&lexicon.id).to_owned()).or_default().lexicons.push(lexicon);
    }
    Ok(())
}

async fn add_scripts(
    app: &App,
    period: (Timestamp, Timestamp),
    calls: &Calls,
    apps: &mut BTreeMap<String, AppUsage>,
) -> Result<(), StoreError> {
    let runs = totals(&app.db, Measure::ScriptRuns, period).await?;
    let failures = totals(&app.db, Measure::ScriptErrors, period).await?;
    let instructions = totals(&app.db, Measure::ScriptInstructions, period).await?;
    for row in scripts::names(&app.db).await? {
        let Some(trigger) = Trigger::parse(&row.id).ok().filter(is_about_nsid) else { continue };
        let is_view = trigger.kind() == TriggerKind::View;
        // Only scripts count their runs: a view answers each call of its method.
        let (runs, failures, label) = if is_view {
            (&calls.all, &calls.errors, trigger.subject())
        } else {
            (&runs, &failures, &*row.id)
        };
        let ran = of(runs, label);
        let script = ScriptUsage {
            is_view,
            description: row.description,
            runs: ran.count,
            failures: of(failures, label).count,
            instructions: of(&instructions, &row.id).count,
            mean_ms: ran.mean(),
            id: row.id,
        };
        apps.entry(app_of(trigger.subject()).to_owned()).or_default().scripts.push(script);
    }
    Ok(())
}

/// Whether the script belongs to an app: those of jobs and of labels on accounts don't.
fn is_about_nsid(trigger: &Trigger) -> bool {
    trigger.kind() != TriggerKind::JobRun && trigger.subject().contains('.')
}

/// Adds the callers of the apps that are there already.
async fn add_clients(
    app: &App,
    period: (Timestamp, Timestamp),
    apps: &mut BTreeMap<String, AppUsage>,
) -> Result<(), StoreError> {
    let clients = api_clients::list(&app.db, None).await?;
    let names: HashMap<String, String> = clients.into_iter().map(|row| (row.id, row.name)).collect();
    for (label, total) in totals(&app.db, Measure::AppRequests, period).await? {
        let Some((called, client)) = label.split_once(' ') else { continue };
        let Some(usage) = apps.get_mut(called) else { continue };
        usage.clients.push(AppCaller {
            is_client: !client.starts_with('('),
            name: names.get(client).cloned(),
            id: client.to_owned(),
            calls: total.count,
        });
    }
    for usage in apps.values_mut() {
        usage.clients.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.id.cmp(&b.id)));
    }
    Ok(())
}

fn of(totals: &HashMap<String, Total>, label: &str) -> Total {
    totals.get(label).copied().unwrap_or_default()
}
