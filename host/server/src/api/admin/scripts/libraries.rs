//! Libraries of scripts: the checks of those that a script requires, and of the scripts that require a library that changes.

use std::sync::Arc;

use http::StatusCode;

use crate::app::App;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{CheckedScript, Engine, FailureKind, ScriptFailure, ScriptSet};
use belvedere_web::http::Error;

/// Scripts that are named in one error.
const MAX_NAMED: usize = 5;

/// The script, or why it can't be saved.
pub(super) type Checked = Result<CheckedScript, ScriptFailure>;

/// Loads a script once in a bare sandbox, with the stored libraries. It must load, and define `handle` unless it is a library. The
/// scripts that require a library must load with it.
///
/// # Errors
/// When the failure is not that of a script.
pub(super) async fn check(app: &App, trigger: Trigger, source: &str) -> Result<Checked, Error> {
    let engine = &app.scripting.runtime.engine;
    let stored = Arc::new(app.scripting.runtime.scripts.stored(engine, &app.db).await?);
    let checked = match load(engine, trigger, source, &stored).await? {
        Ok(checked) => checked,
        Err(failure) => return Ok(Err(failure)),
    };
    if checked.script.trigger().kind() != TriggerKind::Library {
        return Ok(Ok(checked));
    }
    let next = Arc::new(stored.with(Arc::clone(&checked.script)));
    let broken = broken_user(engine, (&stored, &next), checked.script.trigger().subject(), |_| false).await?;
    Ok(broken.map_or(Ok(checked), Err))
}

/// The failure of the first script that requires a library and would not load any more with the `next` scripts. `is_checked`: by
/// id, those that need not be looked at.
///
/// # Errors
/// When the failure is not that of a script.
pub(in crate::api::admin) async fn broken_user(
    engine: &Engine,
    (stored, next): (&Arc<ScriptSet>, &Arc<ScriptSet>),
    library: &str,
    is_checked: impl Fn(&str) -> bool,
) -> Result<Option<ScriptFailure>, Error> {
    for user in next.users_of(library).iter().filter(|user| !is_checked(user.trigger().id())) {
        let load = async |others| load(engine, user.trigger().clone(), user.source(), others).await;
        // A script that did not load before is not held against the library.
        if let Err(failure) = load(next).await?
            && load(stored).await?.is_ok()
        {
            let message = format!("{} would not load any more: {failure}", user.trigger());
            return Ok(Some(ScriptFailure::new(failure.kind, message)));
        }
    }
    Ok(None)
}

/// Refuses to delete a library that others require.
pub(super) async fn check_unused(app: &App, id: &str) -> Result<(), Error> {
    let trigger = Trigger::parse(id).ok().filter(|trigger| trigger.kind() == TriggerKind::Library);
    let Some(library) = trigger else { return Ok(()) };
    let scripts = &app.scripting.runtime.scripts;
    let stored = scripts.stored(&app.scripting.runtime.engine, &app.db).await?;
    let users: Vec<_> =
        stored.users_of(library.subject()).iter().map(|user| user.trigger().to_string()).collect();
    if users.is_empty() {
        return Ok(());
    }
    let named = users[..users.len().min(MAX_NAMED)].join(", ");
    let more = match users.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("{id} is required by {named}{more}: change them first");
    Err(Error::conflict(message))
}

/// Loads a script among others.
///
/// # Errors
/// When the failure is not that of a script.
pub(in crate::api::admin) async fn load(
    engine: &Engine,
    trigger: Trigger,
    source: &str,
    others: &Arc<ScriptSet>,
) -> Result<Checked, Error> {
    of_script(Box::pin(engine.check(trigger, source, others)).await)
}

/// A result with the failures of scripts only.
pub(super) fn of_script<T>(result: Result<T, ScriptFailure>) -> Result<Result<T, ScriptFailure>, Error> {
    match result {
        Err(failure) if failure.kind == FailureKind::Busy => {
            Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, failure.public_text()))
        }
        Err(failure) if failure.kind == FailureKind::Internal => Err(Error::internal(failure)),
        result => Ok(result),
    }
}
