//! The way in which queries without a script are answered: of an ordinary call, or of one in a dry run.

use std::sync::Arc;

use super::pay_for_handle;
use crate::app::App;
use belvedere_instance::identity::Resolver;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::{AtIdentifier, Did};
use belvedere_scripting::scripts::Profiles;
use belvedere_storage::store::replicas::ReadDb;
use belvedere_web::http::Error;

pub(super) struct Reading {
    may_lag: bool,
    /// Whether the call is recorded, and its output compared with the lexicon in samples.
    pub(super) is_recorded: bool,
    pub(super) resolver: Resolver,
    pub(super) profiles: Arc<Profiles>,
}

impl Reading {
    /// `may_lag`: whether a replica may answer.
    pub(super) fn of_call(app: &App, may_lag: bool) -> Self {
        let (resolver, profiles) = (app.core.resolver.clone(), Arc::clone(&app.scripting.profiles));
        Self { may_lag, is_recorded: true, resolver, profiles }
    }

    /// Without the network, a dry run reads only what is stored or cached, and causes no look-ups later.
    pub(super) fn of_dry_run(app: &App, network: bool) -> Self {
        let call = Self { is_recorded: false, ..Self::of_call(app, false) };
        if network {
            return call;
        }
        let (resolver, profiles) = (call.resolver.without_look_ups(), call.profiles.only_stored());
        Self { resolver, profiles: Arc::new(profiles), ..call }
    }

    pub(super) async fn db<'a>(&self, app: &'a App, caller: &Caller) -> ReadDb<'a> {
        if self.may_lag { app.db.read_for(|| caller.writer()).await } else { ReadDb::primary(&app.db) }
    }

    /// The account that the parameter `name` of a call names. The look-up of a handle is charged.
    pub(super) async fn account_of(
        &self,
        app: &App,
        caller: &Caller,
        name: &str,
        account: AtIdentifier,
    ) -> Result<Did, Error> {
        match account {
            AtIdentifier::Did(did) => Ok(did),
            AtIdentifier::Handle(handle) => {
                pay_for_handle(app, &self.resolver, caller, &handle)?;
                let found = self.resolver.account_for_read(handle.as_str()).await;
                found.map_err(|error| error.of_parameter(name))
            }
        }
    }
}
