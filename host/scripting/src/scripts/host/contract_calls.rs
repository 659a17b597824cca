//! The imports of the guest. Each call is recorded with its answer, or answered from a recording, when the run has a tape; the calls
//! that `parallel` gathers may wait for others (`guest-lua/build/gathered.rs` lists the same).

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmtime::StoreContextMut;
use wasmtime::component::{HasData, Linker};

use super::plugins::{INTERFACE, paid_call};
use super::state::RunState;
use super::waiting_calls::Step;
use super::{Refusal, sql};
use crate::scripts::bindings::Guest as ScriptBindings;
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::bindings::belvedere::script::{
    atproto, clock, db, http, jobs, libraries, linked_repos, log, meter, moderation, parallel, plugins,
    profile, repo, spaces, types, xrpc,
};
use crate::scripts::recording::{Begun, Recorder, Tape, conceal, encode};
use belvedere_instance::events::redact::is_secret;

/// Names of headers whose values are secrets, besides those that [`is_secret`] knows.
const SECRET_HEADERS: [&str; 2] = ["x-api-key", "x-client-key"];

/// The state of a run whose guest calls.
pub(super) struct ContractCalls<'a>(&'a mut RunState);

pub(super) struct Imports;

impl HasData for Imports {
    type Data<'a> = ContractCalls<'a>;
}

fn calls_of(state: &mut RunState) -> ContractCalls<'_> {
    ContractCalls(state)
}

/// Links every import that the contract has. `plugins.call` reduces the run's fuel, which the functions of the bindings can't reach.
pub(super) fn link(linker: &mut Linker<RunState>) -> wasmtime::Result<()> {
    ScriptBindings::add_to_linker::<_, Imports>(linker, calls_of)?;
    linker.allow_shadowing(true);
    linker.instance(INTERFACE)?.func_wrap_async(
        "call",
        |mut store: StoreContextMut<'_, RunState>, (plugin, function, args): (String, String, Vec<u8>)| {
            Box::new(async move {
                let given = (&plugin, &function, &args);
                let begun: Begun<Result<Vec<u8>, plugins::PluginFault>> =
                    ContractCalls(store.data_mut()).begin("plugins.call", &given);
                let taped = match begun {
                    Begun::Answered(answer) => {
                        return Ok((answer.unwrap_or_else(|fault| Err(fault.into())),));
                    }
                    Begun::Call(args) => args,
                };
                let answer = paid_call(&mut store, plugin, function, args).await?;
                ContractCalls(store.data_mut()).end("plugins.call", taped, &Ok(&answer));
                Ok((answer,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn is_secret_header(name: &str) -> bool {
    is_secret(name) || SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

impl ContractCalls<'_> {
    fn begin<R: DeserializeOwned>(&mut self, name: &str, args: &impl Serialize) -> Begun<R> {
        if let Some(Tape::Replaying(_)) = self.0.tape.as_deref() {
            // Log lines of replays are refused when too many calls were made before them.
            let _counted = self.0.count_call();
        }
        match &mut self.0.tape {
            Some(tape) => tape.begin(name, args),
            None => Begun::Call(None),
        }
    }

    fn end<R: Serialize>(&mut self, name: &str, args: Option<Vec<u8>>, answer: &Result<R, Refusal>) {
        let (Some(recorder), Some(args)) = (self.recorder(), args) else { return };
        // Operators read no records of spaces.
        if name.starts_with("spaces.") {
            recorder.drop_run();
        }
        let answer = match answer {
            Ok(value) => encode(&Ok::<&R, &Fault>(value)),
            Err(Refusal::Fault(fault)) => encode(&Err::<&R, &Fault>(fault)),
            Err(Refusal::Trap(_)) => return,
        };
        recorder.add(name, args, answer);
    }

    fn recorder(&mut self) -> Option<&mut Recorder> {
        match self.0.tape.as_deref_mut() {
            Some(Tape::Recording(recorder)) => Some(recorder),
            _ => None,
        }
    }

    /// The value of a call that can't fail: `live`, or that of the recording.
    fn value<R: Serialize + DeserializeOwned + Default>(
        &mut self,
        name: &str,
        live: impl FnOnce(&mut RunState) -> wasmtime::Result<R>,
    ) -> wasmtime::Result<R> {
        if let Some(Tape::Replaying(player)) = self.0.tape.as_deref_mut() {
            return Ok(player.value(name).unwrap_or_default());
        }
        let value = live(self.0)?;
        if let Some(recorder) = self.recorder() {
            recorder.add(name, Vec::new(), encode(&value));
        }
        Ok(value)
    }

    /// Adds the values of the headers that are secrets by their names, and the tokens and cookies in them.
    fn add_secret_headers(&mut self, headers: &[http::Header]) {
        let Some(recorder) = self.recorder() else { return };
        for http::Header { name, value } in headers.iter().filter(|header| is_secret_header(&header.name)) {
            recorder.add_secret(value);
            // Attributes of a cookie that a server sets are no secrets.
            let cookies = if name.eq_ignore_ascii_case("set-cookie") { 1 } else { usize::MAX };
            for part in value.split(|byte| *byte == b';').take(cookies) {
                let secret = part.trim_ascii().splitn(2, |byte| matches!(byte, b'=' | b' ')).nth(1);
                recorder.add_secret(secret.unwrap_or_default());
            }
        }
    }
}

/// Implements an interface: functions that are gathered, others, and those that are written out.
macro_rules! calls {
    ($interface:ident
        { $(fn $gathered:ident($($gathered_arg:ident: $gathered_type:ty),*) -> $gathered_answer:ty;)* }
        { $(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)* }
        $($more:item)*
    ) => {
        impl $interface::Host for ContractCalls<'_> {
            $(async fn $gathered(&mut self, $($gathered_arg: $gathered_type),*) -> Result<$gathered_answer, Refusal> {
                calls!(make $interface::$gathered($($gathered_arg: $gathered_type),*) -> $gathered_answer);
                match self.0.next_step() {
                    None => make(self.0, $($gathered_arg),*).await,
                    Some(step) => self.0.step(step, 0, move |state| make(state, $($gathered_arg),*).boxed()),
                }
            })*
            $(async fn $name(&mut self, $($arg: $type),*) -> Result<$answer, Refusal> {
                calls!(make $interface::$name($($arg: $type),*) -> $answer);
                make(self.0, $($arg),*).await
            })*
            $($more)*
        }
    };
    // Defines the function `make`, which makes the call and records it, or answers it from the recording.
    (make $interface:ident::$name:ident($($arg:ident: $type:ty),*) -> $answer:ty) => {
        async fn make(state: &mut RunState, $($arg: $type),*) -> Result<$answer, Refusal> {
            const NAME: &str = concat!(stringify!($interface), ".", stringify!($name));
            let args = match ContractCalls(state).begin(NAME, &($(&$arg,)*)) {
                Begun::Answered(answer) => return Ok(answer?),
                Begun::Call(args) => args,
            };
            let answer = $interface::Host::$name(state, $($arg),*).await;
            ContractCalls(state).end(NAME, args, &answer);
            answer
        }
    };
}

calls! { db {
    fn query(args: db::QueryArgs) -> db::Page;
    fn get(uri: String) -> Vec<u8>;
    fn count(args: db::CountArgs) -> u64;
    fn group(args: db::GroupArgs) -> Vec<u8>;
    fn backlinks(args: db::BacklinksArgs) -> db::Page;
    fn link_counts(targets: Vec<String>, kinds: Vec<db::LinkKind>) -> Vec<u8>;
    fn links_by(did: String, targets: Vec<String>, kinds: Vec<db::LinkKind>) -> Vec<u8>;
    fn select_page(sql: String, params: Vec<u8>, args: db::PageArgs) -> db::RawPage;
    fn search(args: db::SearchArgs) -> db::Page;
    fn profiles(dids: Vec<String>) -> Vec<u8>;
} {}
    async fn raw(&mut self, sql: String, params: Vec<u8>) -> Result<db::RawAnswer, Refusal> {
        calls!(make db::raw(sql: String, params: Vec<u8>) -> db::RawAnswer);
        match self.0.next_step() {
            None => make(self.0, sql, params).await,
            // Writes keep the order of the program.
            Some(Step::Defer(number)) if sql::is_write(self.0, &sql) => {
                let answer = make(self.0, sql, params).await;
                Err(self.0.keep_made(number, answer))
            }
            Some(step) => self.0.step(step, 0, move |state| make(state, sql, params).boxed()),
        }
    }

    async fn backend(&mut self) -> wasmtime::Result<String> {
        if let Some(Tape::Replaying(player)) = self.0.tape.as_deref_mut() {
            return Ok(player.value("db.backend").unwrap_or_default());
        }
        let backend = db::Host::backend(self.0).await?;
        self.value("db.backend", |_| Ok(backend))
    }
}

calls! { jobs {} {
    fn create(kind: String, input: Vec<u8>, auth: bool) -> String;
    fn get(id: String, own: bool) -> Vec<u8>;
    fn list(statuses: Vec<String>, kind: Option<String>, limit: u32) -> Vec<u8>;
    fn progress(value: Vec<u8>) -> ();
    fn should_stop() -> bool;
    fn wait(seconds: f64) -> ();
} }

calls! { atproto {
    fn resolve_service_endpoint(did: String) -> Option<String>;
    fn resolve_handle(handle: String) -> Option<String>;
    fn handles(dids: Vec<String>) -> Vec<u8>;
    fn labels(uris: Vec<String>) -> Vec<u8>;
} {
    fn issue_label(uri: String, val: String, cid: String, expires: String, negate: bool) -> bool;
    fn blob_download(did: String, cid: String) -> atproto::Blob;
    fn blob_bytes(handle: u32) -> Vec<u8>;
    fn blob_upload_bytes(bytes: Vec<u8>, mime_type: String) -> Vec<u8>;
    fn blob_upload(handle: u32, mime_type: String) -> Vec<u8>;
    fn sign(record: Vec<u8>) -> Vec<u8>;
    fn verify_signature(record: Vec<u8>, signature: Vec<u8>, repo_did: String) -> bool;
}
    async fn service_token(&mut self, audience: String, method: String) -> Result<String, Refusal> {
        let args = match self.begin("atproto.service_token", &(&audience, &method)) {
            Begun::Answered(answer) => return Ok(answer?),
            Begun::Call(args) => args,
        };
        let answer = atproto::Host::service_token(self.0, audience, method).await;
        if let (Ok(token), Some(recorder)) = (&answer, self.recorder()) {
            recorder.add_secret(token.as_bytes());
        }
        self.end("atproto.service_token", args, &answer);
        answer
    }
}

calls! { http {} {}
    async fn send(&mut self, requests: Vec<http::Request>) -> Result<Vec<http::Outcome>, Refusal> {
        match self.0.next_step() {
            None => send(self.0, requests).await,
            Some(step) => self.0.step(step, requests.len(), move |state| send(state, requests).boxed()),
        }
    }
}

/// Makes `http.send`. A recording has no secret headers.
async fn send(state: &mut RunState, requests: Vec<http::Request>) -> Result<Vec<http::Outcome>, Refusal> {
    if state.tape.is_none() {
        return http::Host::send(state, requests).await;
    }
    let mut calls = ContractCalls(state);
    let mut shown = requests.clone();
    for request in &mut shown {
        calls.add_secret_headers(&request.headers);
        for header in request.headers.iter_mut().filter(|header| is_secret_header(&header.name)) {
            conceal(&mut header.value);
        }
    }
    let args = match calls.begin("http.send", &(&shown,)) {
        Begun::Answered(answer) => return Ok(answer?),
        Begun::Call(args) => args,
    };
    let answer = http::Host::send(calls.0, requests).await;
    for response in answer.iter().flatten().filter_map(|outcome| outcome.response.as_ref()) {
        calls.add_secret_headers(&response.headers);
    }
    calls.end("http.send", args, &answer);
    answer
}

calls! { linked_repos {} {
    fn list() -> Vec<u8>;
    fn get(did: String) -> Vec<u8>;
    fn create_record(did: String, collection: String, rkey: Option<String>, value: Vec<u8>, validate: bool) -> linked_repos::Put;
    fn put_record(did: String, collection: String, rkey: String, value: Vec<u8>, swap: Option<String>, validate: bool) -> linked_repos::Put;
    fn delete_record(did: String, collection: String, rkey: String) -> ();
    fn upload_blob(did: String, bytes: Vec<u8>, mime_type: String) -> Vec<u8>;
    fn call(did: String, nsid: String, params: Option<Vec<u8>>, input: Option<Vec<u8>>) -> Vec<u8>;
} }

calls! { moderation {} {
    fn moderate(subject: String, action: moderation::Action, reason: String, expires_at: String) -> bool;
    fn lift(subject: String, reason: String) -> bool;
    fn status(subject: String) -> Option<moderation::Decision>;
} }

calls! { repo {
    fn load(uris: Vec<String>) -> Vec<repo::Loaded>;
} {
    fn schema(collection: String) -> Vec<u8>;
    fn save(writes: Vec<repo::Write>, validate: bool) -> Vec<repo::Written>;
    fn save_local(write: repo::Write, validate: bool) -> repo::Written;
    fn validate(collection: String, value: Vec<u8>) -> ();
    fn log_left_out(collection: String, fields: Vec<String>) -> ();
    fn delete_local(uri: String, repo: Option<String>) -> bool;
} }

calls! { spaces {
    fn query(args: spaces::QueryArgs) -> spaces::Page;
    fn count(uri: String, collection: String, did: Option<String>) -> u64;
    fn access(uri: String, did: String) -> Option<String>;
    fn list_members(uri: String, after: Option<String>) -> spaces::Members;
} {} }

calls! { xrpc {
    fn query(nsid: String, params: Option<Vec<u8>>) -> xrpc::Answer;
    fn query_all(calls: Vec<xrpc::QueryCall>) -> Vec<xrpc::Outcome>;
} {
    fn procedure(nsid: String, input: Option<Vec<u8>>, params: Option<Vec<u8>>) -> xrpc::Answer;
} }

impl plugins::Host for ContractCalls<'_> {
    async fn call(
        &mut self,
        plugin: String,
        function: String,
        args: Vec<u8>,
    ) -> wasmtime::Result<Result<Vec<u8>, plugins::PluginFault>> {
        // `link` replaces this.
        plugins::Host::call(self.0, plugin, function, args).await
    }
}

impl parallel::Host for ContractCalls<'_> {
    async fn defer(&mut self, number: u32) -> wasmtime::Result<()> {
        self.0.calls.next = Some(Step::Defer(number));
        Ok(())
    }

    async fn collect(&mut self, number: u32) -> wasmtime::Result<()> {
        self.0.calls.next = Some(Step::Collect(number));
        Ok(())
    }

    async fn perform(&mut self) -> wasmtime::Result<()> {
        self.0.make_waiting_calls().await
    }
}

impl clock::Host for ContractCalls<'_> {
    fn now(&mut self) -> wasmtime::Result<i64> {
        self.value("clock.now", clock::Host::now)
    }

    fn tid(&mut self) -> wasmtime::Result<String> {
        self.value("clock.tid", clock::Host::tid)
    }
}

impl log::Host for ContractCalls<'_> {
    fn write(&mut self, level: log::Level, message: Vec<u8>) -> Result<(), Refusal> {
        log::Host::write(self.0, level, message)
    }
}

impl libraries::Host for ContractCalls<'_> {
    fn load(&mut self, name: String) -> Result<Vec<u8>, Refusal> {
        libraries::Host::load(self.0, name)
    }
}

impl meter::Host for ContractCalls<'_> {
    fn exhausted(&mut self, line: u32) -> wasmtime::Result<()> {
        meter::Host::exhausted(self.0, line)
    }
}

impl profile::Host for ContractCalls<'_> {
    fn calling(&mut self, place: u32) -> wasmtime::Result<()> {
        profile::Host::calling(self.0, place)
    }

    fn called(&mut self) -> wasmtime::Result<()> {
        profile::Host::called(self.0)
    }
}

impl types::Host for ContractCalls<'_> {
    fn convert_fault(&mut self, refusal: Refusal) -> wasmtime::Result<Fault> {
        types::Host::convert_fault(self.0, refusal)
    }
}
