//! Live queries: answers a query again after the changes that it depends on (ADR 169).

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::fixed::FixedMethod;
use super::reading::Reading;
use super::{TypedCall, query, script_of};
use crate::access::CalledMethod;
use crate::app::App;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::subscriptions::{End, MAX_ANSWER, PageStream, Watch, WatchKey};
use belvedere_instance::xrpc::Call;
use belvedere_protocol::atproto::{LexiconKind, Nsid};
use belvedere_scripting::views::View;
use belvedere_web::fair_share::Full;
use belvedere_web::http::Error;

/// Time between two answers to the same call: many changes at once are one difference.
const PAUSE: Duration = Duration::from_millis(100);

/// Time after which a query is answered without a known change: labels, hidden accounts, profiles and conditions with times
/// change an answer too.
const REFRESH_AFTER: Duration = Duration::from_secs(5);

/// Time after which a failed answer, or one that the client could not pay, is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The reason why a query can't be watched.
#[derive(Debug)]
pub enum Refused {
    Busy(Full),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The answer of a query and its differences, for a call that has been admitted and charged.
///
/// # Errors
/// Those of the query; 501 for a query that a script or the server itself answers; too many live queries.
pub async fn watch(app: &Arc<App>, call: &Call) -> Result<PageStream, Refused> {
    let Some(collections) = collections(app, call) else {
        let text = "only queries with a view, or that list the records of a collection, can be watched";
        return Err(Error::new(StatusCode::NOT_IMPLEMENTED, "MethodNotImplemented")
            .with_message(text)
            .into());
    };
    let key = WatchKey {
        nsid: call.nsid.clone(),
        params: call.params.clone(),
        did: call.caller.did.clone(),
        client: call.caller.client.clone(),
    };
    let watch = app.watches.get(&key, &call.caller.tenant).map_err(Refused::Busy)?;
    let begin = async {
        // Before the first answer, so that no change after it is missed.
        let changed = app.subscriptions.changes_of(&collections).await.map_err(Error::from)?;
        let answer = answer(app, call).await?;
        if answer.len() > MAX_ANSWER {
            let text =
                format!("an answer of more than {MAX_ANSWER} bytes can't be watched: use a smaller limit");
            return Err(Error::bad_request("InvalidRequest").with_message(text));
        }
        watch.show(answer);
        let keeper = Keeper { app: Arc::clone(app), call: call.clone(), collections, changed };
        let (watch, drain) = (Arc::downgrade(&watch), app.lifecycle.drain.clone());
        app.tasks.spawn(async move { drain.run_until_cancelled(Box::pin(keeper.run(watch))).await });
        Ok(())
    };
    Box::pin(watch.begin(begin)).await?;
    Ok(watch.join())
}

/// The collections that a query reads; `None` for one that can't be watched.
fn collections(app: &App, call: &Call) -> Option<BTreeSet<Nsid>> {
    let lexicon = lexicon(app, call)?;
    if script_of(app, call).is_some() || FixedMethod::has_name(call.nsid.as_str()) {
        return None;
    }
    Some(match app.scripting.views.get(call.nsid.as_str()) {
        Some(stored) => stored.view.as_ref().map(View::collections).unwrap_or_default(),
        None => lexicon.target_collection.iter().cloned().collect(),
    })
}

fn lexicon(app: &App, call: &Call) -> Option<Arc<Lexicon>> {
    app.registry.get(call.nsid.as_str()).filter(|lexicon| lexicon.kind == LexiconKind::Query)
}

/// Answers as the same call without a WebSocket does, from the primary database: it has the change that is waited for.
async fn answer(app: &App, call: &Call) -> Result<Bytes, Error> {
    let lexicon = lexicon(app, call).ok_or_else(|| Error::not_found("method not found"))?;
    let typed = TypedCall::new(app, call)?;
    Ok(query(app, &lexicon, &typed, &Reading::of_call(app, false)).await?.body)
}

/// Keeps the answer of a watch up to date.
struct Keeper {
    app: Arc<App>,
    call: Call,
    collections: BTreeSet<Nsid>,
    changed: Arc<Notify>,
}

/// The outcome of one more answer.
enum Outcome {
    Answer(Bytes),
    Later,
    End(End),
}

impl Keeper {
    /// Runs while a connection has the watch.
    async fn run(self, watch: Weak<Watch>) {
        let mut wait = REFRESH_AFTER;
        loop {
            sleep(PAUSE).await;
            // An error means that the time is over.
            let _ = timeout(wait, self.changed.notified()).await;
            if watch.strong_count() == 0 {
                return;
            }
            let outcome = Box::pin(self.answer()).await;
            let Some(watch) = watch.upgrade() else { return };
            wait = REFRESH_AFTER;
            match outcome {
                Outcome::Answer(answer) => watch.show(answer),
                Outcome::Later => {
                    sleep(RETRY_AFTER).await;
                    wait = Duration::ZERO;
                }
                Outcome::End(end) => return watch.end(end),
            }
        }
    }

    async fn answer(&self) -> Outcome {
        let Self { app, call, collections, .. } = self;
        if self::collections(app, call).as_ref() != Some(collections) {
            return Outcome::End(End::Changed);
        }
        let method = CalledMethod { nsid: call.nsid.as_str(), verb: call.verb, is_fixed: false };
        if let Err(error) = app.access.charge_nested(&call.caller, method) {
            return failed(&error);
        }
        if let Err(error) = app.subscriptions.renew(collections).await {
            tracing::debug!(%error, "the use of a collection by a live query can't be stored");
            return Outcome::Later;
        }
        let Ok(_permit) = app.watches.permit(&call.caller.tenant).await else { return Outcome::Later };
        match answer(app, call).await {
            Ok(answer) if answer.len() > MAX_ANSWER => Outcome::End(End::Error(
                "AnswerTooLarge",
                "the answer has become too large to be watched: use a smaller limit",
            )),
            Ok(answer) => Outcome::Answer(answer),
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &Error) -> Outcome {
    let name = match error.status {
        StatusCode::TOO_MANY_REQUESTS => return Outcome::Later,
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::UNAUTHORIZED => "InvalidToken",
        status if status.is_client_error() => "InvalidRequest",
        _ => {
            tracing::debug!(?error, "a live query can't be answered now; it is tried again");
            return Outcome::Later;
        }
    };
    Outcome::End(End::Error(name, "the query has no answer any more: call it without a WebSocket to see why"))
}
