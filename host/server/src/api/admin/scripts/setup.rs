//! Setup scripts (`setup:NAME`), which run once when they are saved. A body that fails is not stored: the version before stays.

use tokio::sync::MutexGuard;

use super::libraries::of_script;
use crate::app::App;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{Invocation, Services};
use belvedere_storage::store::scripts;
use belvedere_web::http::Error;

/// Runs a setup script, unless its body is the stored one, which has run. The guard keeps others of this host from running until it
/// is stored. `revision`: the one that it replaces; if there is another, the store will refuse it, and it does not run.
///
/// # Errors
/// 400 with the line and the reason when it fails.
pub(super) async fn run<'a>(
    app: &'a App,
    trigger: &Trigger,
    source: &str,
    revision: Option<u32>,
) -> Result<Option<MutexGuard<'a, ()>>, Error> {
    if trigger.kind() != TriggerKind::Setup {
        return Ok(None);
    }
    let alone = app.scripting.setups.lock().await;
    let stored = scripts::get(&app.db, trigger.id()).await?;
    let newest = stored.as_ref().map_or(0, |row| row.revision);
    let is_stale = revision.is_some_and(|revision| i64::from(revision) != newest);
    if is_stale || stored.is_some_and(|row| row.body == source) {
        return Ok(Some(alone));
    }
    execute(app, trigger, source, &app.scripting.runtime.services).await?;
    Ok(Some(alone))
}

/// Runs the body of a setup script. `services`: those with the scripts whose libraries it requires.
///
/// # Errors
/// 400 with the line and the reason when it fails.
pub(in crate::api::admin) async fn execute(
    app: &App,
    trigger: &Trigger,
    source: &str,
    services: &Services,
) -> Result<(), Error> {
    let engine = &app.scripting.runtime.engine;
    let script = Box::pin(engine.compile(trigger.clone(), source)).await;
    let ran = Box::pin(engine.run(&script, Invocation::default(), services)).await;
    of_script(ran)?.map(|_| ()).map_err(|failure| {
        let reason = services.variables.redact(&failure.message);
        Error::bad_request(format!("the setup failed and was not saved: {reason}"))
    })
}
