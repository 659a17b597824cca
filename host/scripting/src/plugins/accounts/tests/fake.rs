//! A plugin and its service: issues tokens, refreshes each refresh token once, and answers with pages or failures that a
//! test chooses.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::plugins::calls::{
    CallError, CallScope, Callback, Called, Expiry, Fault, FaultCode, Item, Linker, Linkers, Page, Profile,
    Start, Tokens,
};
use crate::plugins::engine::Exports;
use crate::plugins::manifest::{Grants, Manifest, Permission};
use crate::plugins::registry::PluginStatus;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;

/// A secret of the plugin.
pub(super) const SECRET: &str = "s3cret-value";

/// Makes a page for a cursor.
type Pages = Arc<dyn Fn(Option<&str>) -> Page + Send + Sync>;

pub(super) struct FakeService {
    manifest: Manifest,
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) status: PluginStatus,
    pub(super) grants: Grants,
    pub(super) exports: Exports,
    /// The account that signs in next.
    pub(super) account: String,
    /// The time at which new tokens expire.
    pub(super) expires_at: Option<Timestamp>,
    /// Whether a refresh returns a new refresh token.
    pub(super) rotates: bool,
    /// Whether the service issues refresh tokens.
    pub(super) refreshable: bool,
    pub(super) authorize_url: String,
    /// Failures of the next calls, by call.
    failures: HashMap<&'static str, VecDeque<CallError>>,
    pages: Pages,
    /// Calls wait while this is `false`.
    gate: Option<watch::Receiver<bool>>,
    /// Access tokens that the service accepts.
    accepted: HashSet<String>,
    refresh_tokens: HashSet<String>,
    spent: HashSet<String>,
    /// Uses of a spent refresh token.
    pub(super) reused: u32,
    issued: u32,
    /// Each call with what it was given.
    pub(super) calls: Vec<(&'static str, String)>,
    /// The scopes of the calls.
    pub(super) scopes: Vec<CallScope>,
}

impl std::fmt::Debug for FakeService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeService")
    }
}

impl FakeService {
    /// A plugin that writes notes, and other records.
    pub(super) fn new(id: &str, auth_type: &str) -> Self {
        let manifest = json!({ "id": id, "name": "Fake", "version": "1.0.0", "api_version": "1", "auth_type": auth_type,
            "hosts": ["api.fake.example"], "collections": [super::NOTE, super::LOOSE], "signs": true });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let state = State {
            status: PluginStatus::Active,
            grants: Grants::new(manifest.permissions.clone()),
            exports: Exports { linking: true, sync: true, callable: false },
            account: "765".to_owned(),
            expires_at: None,
            rotates: true,
            refreshable: true,
            authorize_url: "https://fake.example/login".to_owned(),
            failures: HashMap::new(),
            pages: Arc::new(|_| Page { items: Vec::new(), next: None }),
            gate: None,
            accepted: HashSet::new(),
            refresh_tokens: HashSet::new(),
            spent: HashSet::new(),
            reused: 0,
            issued: 0,
            calls: Vec::new(),
            scopes: Vec::new(),
        };
        Self { manifest, state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn sign_in_as(&self, account: &str) {
        account.clone_into(&mut self.state().account);
    }

    /// Lets the next call of a function fail.
    pub(super) fn fail(&self, call: &'static str, error: CallError) {
        self.state().failures.entry(call).or_default().push_back(error);
    }

    pub(super) fn pages(&self, pages: impl Fn(Option<&str>) -> Page + Send + Sync + 'static) {
        self.state().pages = Arc::new(pages);
    }

    /// One page with these items.
    pub(super) fn items(&self, items: Vec<Item>) {
        self.pages(move |_| Page { items: items.clone(), next: None });
    }

    /// Holds calls back until `true` is sent.
    pub(super) fn hold(&self) -> watch::Sender<bool> {
        let (open, gate) = watch::channel(false);
        self.state().gate = Some(gate);
        open
    }

    /// The service no longer accepts the access tokens that it has issued.
    pub(super) fn forget_access(&self) {
        self.state().accepted.clear();
    }

    /// Nor the refresh tokens.
    pub(super) fn forget_all(&self) {
        let mut state = self.state();
        state.accepted.clear();
        state.refresh_tokens.clear();
    }

    pub(super) fn count(&self, call: &str) -> usize {
        self.state().calls.iter().filter(|(name, _)| *name == call).count()
    }

    pub(super) fn revoke_grant(&self, collection: &str) {
        let mut state = self.state();
        let gone = Permission::WriteRecords(Nsid::try_from(collection).unwrap());
        state.grants = Grants::new(state.grants.iter().filter(|held| **held != gone).cloned().collect());
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: &'static str,
        scope: &CallScope,
        given: impl Into<String>,
        answer: impl FnOnce(&mut State) -> Result<T, CallError> + Send + 'a,
    ) -> Called<'a, T> {
        let gate = {
            let mut state = self.state();
            state.calls.push((call, given.into()));
            state.scopes.push(scope.clone());
            if let Some(error) = state.failures.get_mut(call).and_then(VecDeque::pop_front) {
                return Box::pin(std::future::ready(Err(error)));
            }
            state.gate.clone()
        };
        Box::pin(async move {
            if let Some(mut gate) = gate {
                let _ = gate.wait_for(|open| *open).await;
            }
            answer(&mut self.state())
        })
    }
}

impl State {
    fn issue(&mut self) -> Tokens {
        self.issued += 1;
        let (access, refresh) = (format!("access-{}", self.issued), format!("refresh-{}", self.issued));
        self.accepted.insert(access.clone());
        if self.refreshable {
            self.refresh_tokens.insert(refresh.clone());
        }
        Tokens {
            access,
            refresh: self.refreshable.then_some(refresh),
            token_type: "Bearer".to_owned(),
            scope: None,
            expiry: self.expires_at.map_or(Expiry::Never, Expiry::At),
        }
    }
}

pub(super) fn fault(code: FaultCode, message: &str) -> CallError {
    CallError::Fault(Fault::new(code, message))
}

/// An item of a collection.
pub(super) fn item(collection: &str, key: Option<&str>, value: &Value) -> Item {
    Item {
        collection: collection.to_owned(),
        value: value.to_string(),
        dedup_key: key.map(str::to_owned),
        sign: false,
    }
}

impl Linker for FakeService {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn grants(&self) -> &Grants {
        // Leaked: a test changes them a few times.
        Box::leak(Box::new(self.state().grants.clone()))
    }

    fn hide_secrets(&self, text: &str) -> String {
        text.replace(SECRET, "[secret]")
    }

    fn exports(&self) -> Exports {
        self.state().exports
    }

    fn status(&self) -> PluginStatus {
        self.state().status
    }

    fn authorize_url<'a>(&'a self, scope: &'a CallScope, start: Start) -> Called<'a, String> {
        let Start { state, redirect_uri, config } = start;
        self.call("authorize_url", scope, config, move |service| {
            Ok(format!("{}?state={state}&redirect_uri={redirect_uri}", service.authorize_url))
        })
    }

    fn handle_callback<'a>(&'a self, scope: &'a CallScope, callback: Callback) -> Called<'a, Tokens> {
        let code = callback.params.iter().find(|(name, _)| name == "code").map(|(_, code)| code.clone());
        self.call("handle_callback", scope, code.clone().unwrap_or_default(), move |service| {
            match code.as_deref() {
                Some("good") => Ok(service.issue()),
                _ => Err(fault(FaultCode::BadInput, "the code is wrong")),
            }
        })
    }

    fn connect<'a>(&'a self, scope: &'a CallScope, config: &'a str) -> Called<'a, Tokens> {
        self.call("connect", scope, config, State::connect(config))
    }

    fn refresh<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        _config: &'a str,
    ) -> Called<'a, Tokens> {
        let old = tokens.refresh.clone().unwrap_or_default();
        self.call("refresh", scope, old.clone(), move |service| {
            if !service.refresh_tokens.contains(&old) {
                service.reused += u32::from(service.spent.contains(&old));
                return Err(fault(FaultCode::NeedsReauth, "the refresh token is unknown"));
            }
            let mut new = service.issue();
            if service.rotates {
                service.refresh_tokens.remove(&old);
                service.spent.insert(old);
            } else {
                new.refresh = None;
            }
            Ok(new)
        })
    }

    fn profile<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        _config: &'a str,
    ) -> Called<'a, Profile> {
        self.call("profile", scope, tokens.access.clone(), |service| {
            Ok(Profile {
                account_id: service.account.clone(),
                display_name: Some(format!("Name of {}", service.account)),
                profile_url: None,
                avatar_url: None,
            })
        })
    }

    fn revoke<'a>(&'a self, scope: &'a CallScope, tokens: &'a Tokens) -> Called<'a, ()> {
        let access = tokens.access.clone();
        self.call("revoke", scope, access.clone(), move |service| {
            service.accepted.remove(&access);
            Ok(())
        })
    }

    fn pull<'a>(
        &'a self,
        scope: &'a CallScope,
        tokens: &'a Tokens,
        _config: &'a str,
        cursor: Option<&'a str>,
    ) -> Called<'a, Page> {
        let access = tokens.access.clone();
        self.call("pull", scope, cursor.unwrap_or("start"), move |service| {
            if !service.accepted.contains(&access) {
                return Err(fault(FaultCode::NeedsReauth, "the access token is unknown"));
            }
            Ok((service.pages)(cursor))
        })
    }
}

impl State {
    fn connect(config: &str) -> impl FnOnce(&mut Self) -> Result<Tokens, CallError> + Send + use<> {
        let config: Value = serde_json::from_str(config).unwrap();
        move |service| match config["key"].as_str() {
            Some("good") => Ok(service.issue()),
            _ => Err(fault(FaultCode::AuthRequired, "the key is wrong")),
        }
    }
}

impl Linkers for FakeService {
    fn get(&self, id: &str) -> Option<Arc<dyn Linker>> {
        let copy = Self { manifest: self.manifest.clone(), state: Arc::clone(&self.state) };
        (id == self.manifest.id).then(|| Arc::new(copy) as _)
    }

    fn all(&self) -> Vec<Arc<dyn Linker>> {
        self.get(&self.manifest.id).into_iter().collect()
    }
}
