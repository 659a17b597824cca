import os,shutil
os.chdir('/tmp/wt/replay')
def ed(p,*subs):
    s=open(p).read()
    for a,c in subs:
        assert a in s,(p,a)
        s=s.replace(a,c,1)
    open(p,'w').write(s)
shutil.move('/tmp/wt/hold/sqlite83.sql','migrations/sqlite/0083_script_recordings.sql')
shutil.move('/tmp/wt/hold/postgres83.sql','migrations/postgres/0083_script_recordings.sql')
shutil.move('/tmp/wt/hold/script_recordings.rs','tests/integration/admin/script_recordings.rs')
ed('Cargo.toml',("serde_json","serde_json")) 
b='host/scripting/src/scripts/'
ed('tests/integration/admin/mod.rs',("mod script_reindex;\n","mod script_recordings;\nmod script_reindex;\n"))
ed('host/storage/src/store/mod.rs',("pub mod script_revisions;\n","pub mod script_recordings;\npub mod script_revisions;\n"))
ed('host/storage/src/store/scripts.rs',("use super::script_revisions","use super::script_recordings::DROP_RECORDING;\nuse super::script_revisions"),(".chain(DROP_ROLLOUT)",".chain(DROP_ROLLOUT).chain(DROP_RECORDING)"))
ed(b+'mod.rs',("mod profile;\n","mod profile;\nmod recording;\n"),("pub use registry::{","pub use recording::{\n    ChosenRecording, Difference, DifferenceKind, RecordedRun, Replayed, RunRecorder, UnmaskedRun, mask,\n};\npub use registry::{"))
ed(b+'bindings.rs',("    exports: { default: async },","    exports: { default: async },\n    // Recorded runs keep what crosses the contract.\n    additional_derives: [serde::Serialize, serde::Deserialize],"))
ed(b+'host/mod.rs',("mod stopped_guest;\n","mod stopped_guest;\nmod taped;\n"),("mod plugins;\n","mod plugin_fuel;\nmod plugins;\n"))
# plugins: paid_call
p=b+'host/plugins.rs'
ed(p,('const INTERFACE: &str','pub(super) const INTERFACE: &str'),
("""            Box::new(async move {
                let mut left = store.get_fuel()?;
                let answer = call(store.data_mut(), left, plugin, function, args).await;
                let is_enough = store.data_mut().pay_plugin_fuel(&mut left);
                store.set_fuel(left)?;
                if is_enough { Ok((answer,)) } else { Err(Trap::OutOfFuel.into()) }
            })
""","""            Box::new(async move { Ok((paid_call(&mut store, plugin, function, args).await?,)) })
"""),
("impl Host for RunState {\n    async fn call(","""/// Calls a function, and takes what it computed out of the run's fuel.
pub(super) async fn paid_call(
    store: &mut StoreContextMut<'_, RunState>,
    plugin: String,
    function: String,
    args: Vec<u8>,
) -> wasmtime::Result<Result<Vec<u8>, PluginFault>> {
    let mut left = store.get_fuel()?;
    let answer = call(store.data_mut(), left, plugin, function, args).await;
    let is_enough = store.data_mut().pay_plugin_fuel(&mut left);
    store.set_fuel(left)?;
    if is_enough { Ok(answer) } else { Err(Trap::OutOfFuel.into()) }
}

impl Host for RunState {
    async fn call("""))
# state: plugin fuel moves out, tape comes in
p=b+'host/state.rs'
s=open(p).read()
a=s.index("    /// The time that plugins computed for the run and that was not subtracted"); e=s.index("    /// Counts a call into the host.\n")
moved=s[a:e].rstrip()+"\n"
s=s[:a]+s[e:]
ta=s.index("    #[test]\n    fn what_plugins_compute_is_taken_out_of_the_fuel"); te=s.index("    #[test]\n    fn the_time_waiting_for_the_database_is_bounded")
mt=s[ta:te].rstrip()+"\n"
s=s[:ta]+s[te:]
s=s.replace("    unpaid_fuel: u64,","    pub(super) unpaid_fuel: u64,",1)
s=s.replace("    pub(super) profile: Option<HostCosts>,\n","    pub(super) profile: Option<HostCosts>,\n    /// Records the run, or answers it from a recording.\n    pub(in crate::scripts) tape: Option<Tape>,\n",1)
s=s.replace("            profile: None,\n            memory:","            profile: None,\n            tape: None,\n            memory:",1)
s=s.replace("use crate::scripts::services::{Index","use crate::scripts::recording::Tape;\nuse crate::scripts::services::{Index",1)
assert "Option<Tape>" in s and "recording::Tape" in s
open(p,'w').write(s)
open(b+'host/plugin_fuel.rs','w').write('''//! Takes what plugins computed for a run out of its fuel.

use std::time::Duration;

use super::state::RunState;
use crate::scripts::limits;

impl RunState {
'''+moved+'''}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::scripts::host::RunInfo;
    use crate::scripts::host::tid::TidClock;
    use belvedere_base::clock::{Clock, Timestamp};
    use belvedere_protocol::trigger::TriggerKind;

'''+mt+"}\n")
# profile.rs is_counted
ed(b+'host/profile.rs',("self.is_observed() || (self.services.is_some()","self.is_observed() || self.tape.is_some() || (self.services.is_some()"))
# guest.rs taped linker
ed(b+'host/guest.rs',("use super::stopped_guest::StoppedGuest;","use super::stopped_guest::StoppedGuest;\nuse super::taped;"),
("    /// The guest, ready to be instantiated.\n","""    /// The guest with the imports of runs that are recorded or replayed.
    pub(in crate::scripts) fn link_taped(engine: &Engine, component: &Component) -> Result<Self> {
        let mut linker = Linker::new(engine);
        taped::link(&mut linker)?;
        let pre = linker.instantiate_pre(component)?;
        Ok(Self { indices: GuestIndices::new(&pre)?, pre, stopped: StoppedGuest::new(engine)? })
    }

    /// The guest, ready to be instantiated.
"""))
# engine
p=b+'engine/mod.rs'
ed(p,("mod profiled_guest;\n","mod profiled_guest;\nmod taping;\n"),
("    guest: Guest,\n","    guest: Guest,\n    /// For runs that are recorded or replayed.\n    taped: Guest,\n"),
("        let guest = Guest::link(&wasm, &image).map_err(EngineError::Wasm)?;\n","        let guest = Guest::link(&wasm, &image).map_err(EngineError::Wasm)?;\n        let taped = Guest::link_taped(&wasm, &image).map_err(EngineError::Wasm)?;\n"),
("            guest,\n","            guest,\n            taped,\n"),
("        let state = RunState::new(info, services, Arc::clone(&self.0.tids), session);\n","        let mut state = RunState::new(info, services, Arc::clone(&self.0.tids), session);\n        let recording = Recording::begin(services, &mut state);\n"),
("        let RunReport { result, usage, instructions, profile } = ran?;","        let RunReport { result, usage, instructions, profile, tape } = ran?;"),
("        let has_caller = matches!(kind,","        if let Some(recording) = recording {\n            let result = (taping::recorded(returned.as_ref()), instructions);\n            recording.keep(script, services, inputs, tape, result);\n        }\n        let has_caller = matches!(kind,"),
("        let guest = if state.is_profiled() { self.0.profiled.get().await? } else { &self.0.guest };","        let guest = match &state.tape {\n            Some(_) => &self.0.taped,\n            None if state.is_profiled() => self.0.profiled.get().await?,\n            None => &self.0.guest,\n        };"),
("use profiled_guest::ProfiledGuest;\n","use profiled_guest::ProfiledGuest;\nuse taping::Recording;\n"))
ed(b+'engine/instance_run.rs',("    /// For observers that want profiles.\n    pub(in crate::scripts) profile: Option<RunProfile>,","    /// For observers that want profiles.\n    pub(in crate::scripts) profile: Option<RunProfile>,\n    pub(in crate::scripts) tape: Option<Tape>,"),
("    let result = match ended {","    let tape = store.data_mut().tape.take();\n    let result = match ended {"),
("    RunReport { result, usage, instructions, profile }","    RunReport { result, usage, instructions, profile, tape }"),
("use crate::scripts::scheduling::Lineage;","use crate::scripts::recording::Tape;\nuse crate::scripts::scheduling::Lineage;"))
ed(b+'engine/taping.rs',("    pub(super) fn of(info: &RunInfo, services: &Services, state: &mut RunState) -> Option<Self> {","    pub(super) fn begin(services: &Services, state: &mut RunState) -> Option<Self> {"),
("services.effects.dry_run().is_some() || info.kind.is_long() || state.is_profiled()","services.effects.dry_run().is_some() || state.factor() > 1 || state.is_profiled()"),
("recorder.takes(&info.trigger, services","recorder.takes(state.trigger(), services"),
("pub(super) fn recorded(result: &Result<(ReturnKind, bytes::Bytes), ScriptFailure>) -> RecordedResult {\n    match result {\n        Ok((shape, body)) => RecordedResult::Returned {\n            shape: match shape {","pub(super) fn recorded(result: Result<&ReturnValue, &ScriptFailure>) -> RecordedResult {\n    match result {\n        Ok(ReturnValue { shape, body }) => RecordedResult::Returned {\n            shape: match shape {"),
("recorded(&returned.map(|returned| (returned.shape, returned.body)))","recorded(returned.as_ref())"),
("use crate::scripts::host::{RunInfo, RunInputs, RunState};","use crate::scripts::host::{ReturnValue, RunInfo, RunInputs, RunState};"))
ed(b+'host/mod.rs',("pub(super) use guest::{Guest, Instance, RunInputs};","pub(super) use guest::{Guest, Instance, ReturnValue, RunInputs};"))
ed(b+'host/state.rs',("    /// Counted calls into the host so far.","    pub(in crate::scripts) fn trigger(&self) -> &str {\n        &self.info.trigger\n    }\n\n    /// Counted calls into the host so far."))
ed(b+'services/mod.rs',("    pub(in crate::scripts) observer: Option<Arc<dyn RunObserver>>,\n}","    pub(in crate::scripts) observer: Option<Arc<dyn RunObserver>>,\n    /// Records runs of chosen scripts.\n    pub(in crate::scripts) recorder: Option<Arc<RunRecorder>>,\n}"),
("            observer: None,\n","            observer: None,\n            recorder: None,\n"),
("            observer: self.observer.clone(),\n","            observer: self.observer.clone(),\n            recorder: None,\n"),
("    #[must_use]\n    pub fn with_scripts(","    /// The recorder chooses which runs it records.\n    #[must_use]\n    pub fn with_recorder(mut self, recorder: Arc<RunRecorder>) -> Self {\n        self.recorder = Some(recorder);\n        self\n    }\n\n    #[must_use]\n    pub fn with_scripts("),
("use crate::scripts::{Lineage, ScriptRegistry};","use crate::scripts::{Lineage, RunRecorder, ScriptRegistry};"))
ed(b+'tests/mod.rs',("mod record;\n","mod record;\nmod recording;\n"))
ed('host/scripting/Cargo.toml',("serde_json.workspace = true\n","serde_json.workspace = true\npostcard.workspace = true\n"))
# server
h='host/server/src/'
ed(h+'app/mod.rs',("mod record_exports;\n","mod record_exports;\nmod recordings;\n"))
ed(h+'app/background.rs',("        self.tasks.spawn(Arc::clone(self).compare_rollouts());\n","        self.tasks.spawn(Arc::clone(self).compare_rollouts());\n        self.tasks.spawn(Arc::clone(self).store_recordings());\n"))
ed(h+'app/cache_invalidation.rs',("                self.scripting.runtime.scripts.reload(&self.scripting.runtime.engine, db).await?;\n","                self.scripting.runtime.scripts.reload(&self.scripting.runtime.engine, db).await?;\n                self.reload_recordings().await?;\n"),
("                self.collect();\n                self.scripting.runtime.scripts.reload_one","                self.collect();\n                self.reload_recordings().await?;\n                self.scripting.runtime.scripts.reload_one"))
ed(h+'app/scripting.rs',("    /// The profiles of accounts, for views.\n    pub profiles: Arc<Profiles>,\n}","    /// The profiles of accounts, for views.\n    pub profiles: Arc<Profiles>,\n    /// Chooses the runs that are recorded.\n    pub recorder: Arc<RunRecorder>,\n    /// The recorded runs, for the task that stores them.\n    pub(super) recorded: std::sync::Mutex<Option<mpsc::Receiver<UnmaskedRun>>>,\n}"),
("        let services = Services::new(index, log,","        let (recorder, recorded) = RunRecorder::new();\n        let recorder = Arc::new(recorder);\n        let recordings = script_recordings::list(db).await.map_err(|error| startup.store_error(error))?;\n        recordings::load(&recorder, &recordings);\n        let services = Services::new(index, log,"),
("            .with_variables(variables)\n","            .with_variables(variables)\n            .with_recorder(Arc::clone(&recorder))\n"),
("        Ok(Self { runtime, web, events, jobs, dry_runs, setups: Mutex::default(), views, profiles })","        let recorded = std::sync::Mutex::new(Some(recorded));\n        let setups = Mutex::default();\n        Ok(Self { runtime, web, events, jobs, dry_runs, setups, views, profiles, recorder, recorded })"),
("use tokio::sync::{Mutex, Semaphore};","use tokio::sync::{Mutex, Semaphore, mpsc};"),
("use super::plugins::PluginParts;","use super::plugins::PluginParts;\nuse super::recordings;"),
("    Engine, EngineConfig, LogSink, OutboundHttp, Profiles, ScriptRegistry, ScriptRuntime, ServerIndex,\n    ServerLabels, ServerLog, ServerPlugins, Services, Variables, Xrpc,\n};","    Engine, EngineConfig, LogSink, OutboundHttp, Profiles, RunRecorder, ScriptRegistry, ScriptRuntime, ServerIndex,\n    ServerLabels, ServerLog, ServerPlugins, Services, UnmaskedRun, Variables, Xrpc,\n};"),
("use belvedere_scripting::views::Views;","use belvedere_scripting::views::Views;\nuse belvedere_storage::store::script_recordings;"))
ed(h+'app/recordings.rs',("        let Some(recorder) = self.scripting.recorder() else { return Ok(()) };\n        load(recorder, &","        load(&self.scripting.recorder, &"),
("        let Some(mut runs) = self.scripting.take_recorded() else { return };","        let recorded = self.scripting.recorded.lock().unwrap_or_else(PoisonError::into_inner).take();\n        let Some(mut runs) = recorded else { return };"),
("use std::sync::Arc;","use std::sync::{Arc, PoisonError};"))
ed(h+'api/admin/scripts/mod.rs',("pub mod reindex;\n","pub mod recording;\npub mod reindex;\npub mod replay;\n"))
ed(h+'api/routes.rs',('        Route::admin(GET, "/admin/scripts/{id}/rollout", ','''        Route::admin(GET, "/admin/scripts/{id}/recording", P::ScriptsRead, admin::scripts::recording::get),
        Route::admin(PUT, "/admin/scripts/{id}/recording", P::ScriptsManage, admin::scripts::recording::set),
        Route::admin(DELETE, "/admin/scripts/{id}/recording", P::ScriptsManage, admin::scripts::recording::delete),
        Route::admin(POST, "/admin/scripts/{id}/replay", P::ScriptsManage, admin::scripts::replay::handle),
        Route::admin(GET, "/admin/scripts/{id}/rollout", '''))
ed(h+'cli/script/mod.rs',("mod remote;\n","mod remote;\nmod replay;\n"),
("    /// Let a part of a script's callers run another body","    /// Record runs of a server's script, without secrets, to replay them\n    Record(replay::RecordOptions),\n    /// Run a body on the recorded runs of a server's script, without effects, and show what differs; exit status 0: nothing, 1: something\n    Replay(replay::ReplayOptions),\n    /// Let a part of a script's callers run another body"),
("        Command::Rollout(options) =>","        Command::Record(options) => replay::record(&options, config).await,\n        Command::Replay(options) => replay::replay(&options, config).await,\n        Command::Rollout(options) =>"))
ed('host/instance/src/events/table.rs',("    /// An admin has begun to let some callers run a candidate","""    /// An admin has begun to record runs of a script, or has changed how many and until when.
    "script.recording_started" Info ScriptRecordingStarted { actor, trigger, percent: i64, until: Timestamp }
        actor, trigger, { percent, until };
    /// An admin has ended a recording and removed its runs.
    "script.recording_deleted" Info ScriptRecordingDeleted { actor, trigger } actor, trigger, {};
    /// An admin has begun to let some callers run a candidate"""))
ed('tests/integration/fixtures.rs',("    /// Uploads the record lexicon of notes and a query over them.","""    /// The recorded runs of scripts as they are stored.
    pub async fn recorded(&self) -> Vec<Vec<u8>> {
        let sql = "SELECT data FROM script_recorded_runs ORDER BY id";
        let db = Db::open(&self.database, 1).await.unwrap();
        let rows: Vec<(Vec<u8>,)> = match &db {
            Db::Sqlite(db) => sqlx::query_as(sql).fetch_all(&db.writer).await.unwrap(),
            Db::Postgres(db) => sqlx::query_as(sql).fetch_all(&db.pool).await.unwrap(),
        };
        db.close().await;
        rows.into_iter().map(|(data,)| data).collect()
    }

    /// Uploads the record lexicon of notes and a query over them."""))
s=open('Cargo.toml').read()
i=s.index("\nserde_json"); j=s.index("\n",i+1)
s=s[:j]+'\npostcard = { version = "1.1", default-features = false, features = ["alloc"] }'+s[j:]
open('Cargo.toml','w').write(s)
