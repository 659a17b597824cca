//! The functions `given.*` of test files: what exists before the scripts of a case run.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use super::super::super::stand_in_pds as pds;
use super::network::{Account, GivenAnswer};
use super::plugins::GivenCall;
use super::spaces;
use super::world::{Refused, World, parse, parse_did, store_label};
use crate::app::Topic;
use crate::event_scripts::Label;
use belvedere_base::clock::Timestamp;
use belvedere_instance::repos::Validation;
use belvedere_instance::settings;
use belvedere_protocol::atproto::space_uri::is_in_space;
use belvedere_protocol::atproto::{Did, Handle, Nsid, RecordUri, set_record_type};
use belvedere_scripting::scripts::services::variables::{self, MAX_COUNT};
use belvedere_storage::store::identities::{self, Learned};
use belvedere_storage::store::lexicons::{self, NewLexicon};
use belvedere_storage::store::script_variables;
use belvedere_web::net::FetchedResponse;

/// Answers a function of `given`. `None` when there is no such function.
pub(super) async fn answer(world: &World, function: &str, input: &[u8]) -> Option<Result<Value, Refused>> {
    let done = match function {
        "account" => account(world, input).await,
        "record" => record(world, input).await,
        "label" => label(world, input).await,
        "variable" => variable(world, input).await,
        "setting" => setting(world, input).await,
        "target" => target(world, input).await,
        "time" => time(world, input),
        "random" => random(world, input),
        "http" => http(world, input),
        "pds" => of_pds(world, input),
        "plugin" => plugin(world, input),
        "space" => spaces::space(world, input).await,
        _ => return None,
    };
    Some(done)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenAccount {
    did: String,
    handle: Option<String>,
    pds: Option<String>,
}

async fn account(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenAccount { did, handle, pds } = parse("given.account", input)?;
    let did = parse_did("given.account: did", &did)?;
    if let Some(handle) = &handle {
        Handle::try_from(handle.as_str())
            .map_err(|_| Refused(format!("given.account: {handle:?} is not a handle")))?;
    }
    let account = Account { handle, pds: pds.unwrap_or_else(|| pds::ORIGIN.to_owned()) };
    world.network.add_account(&did, account).map_err(Refused::of)?;
    world.app.resolver.invalidate(&did).await;
    learn(world, &did).await?;
    Ok(json!({ "did": did.as_str() }))
}

/// Stores the handle of an account, as the server does after it has looked it up.
async fn learn(world: &World, did: &Did) -> Result<(), Refused> {
    let Some(Account { handle, pds }) = world.network.account(did) else { return Ok(()) };
    let learned = Learned { did: did.clone(), handle, pds: Some(pds), known_at: world.clock.now() };
    identities::learn(&world.app.db, &[learned]).await.map_err(Refused::of)
}

#[derive(Deserialize)]
struct GivenRecord {
    uri: String,
    record: Map<String, Value>,
}

async fn record(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenRecord { uri, mut record } = parse("given.record", input)?;
    if is_in_space(&uri) {
        return spaces::record(world, &uri, record).await;
    }
    let refused = |error: &dyn std::fmt::Display| Refused(format!("given.record: {uri}: {error}"));
    let parsed = RecordUri::parse(&uri).map_err(|error| refused(&error))?;
    set_record_type(&mut record, parsed.collection.as_str()).map_err(|error| refused(&error))?;
    let text = Bytes::from(Value::Object(record).to_string());
    let repos = &world.app.repos;
    let inspected =
        repos.check_local(&parsed, &text, Validation::Lexicon).map_err(|error| refused(&error))?;
    repos.save_local(&parsed, text, inspected).await.map_err(|error| refused(&error))?;
    learn(world, &parsed.did).await?;
    Ok(json!({ "uri": uri }))
}

async fn label(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let label: Label = world.label("given.label", input)?;
    store_label(world, label).await?;
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: String,
}

async fn variable(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let NamedValue { name, value } = parse("given.variable", input)?;
    let app = &world.app;
    let sealed = variables::seal(&app.sealing, &app.random, &name, &value);
    let stored = script_variables::upsert(&app.db, &name, &sealed, MAX_COUNT, app.clock.now())
        .await
        .map_err(Refused::of)?;
    if !stored {
        return Err(Refused(format!("given.variable: there are already {MAX_COUNT} variables")));
    }
    app.reload(&Topic::ScriptVariables).await.map_err(Refused::of)?;
    Ok(Value::Null)
}

async fn setting(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let NamedValue { name, value } = parse("given.setting", input)?;
    settings::check(&name, &value).map_err(|error| Refused(format!("given.setting: {error}")))?;
    let app = &world.app;
    belvedere_storage::store::settings::set(&app.db, &name, &value, app.clock.now())
        .await
        .map_err(Refused::of)?;
    app.reload(&Topic::Settings).await.map_err(Refused::of)?;
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct Target {
    method: String,
    collection: String,
}

/// Sets the collection that a method without a script reads or writes, and that its script sees as `collection`.
async fn target(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let Target { method, collection } = parse("given.target", input)?;
    let app = &world.app;
    Nsid::try_from(collection.as_str())
        .map_err(|_| Refused(format!("given.target: {collection:?} is not an NSID")))?;
    let row = lexicons::get(&app.db, &method).await.map_err(Refused::of)?;
    let row = row.ok_or_else(|| Refused(format!("given.target: {method} has no lexicon")))?;
    let lexicon = NewLexicon {
        id: row.id,
        lexicon_json: row.lexicon_json,
        lexicon_type: row.lexicon_type,
        target_collection: Some(collection),
        source: row.source,
        action: row.action,
        ..NewLexicon::default()
    };
    lexicons::upsert(&app.db, &lexicon, app.clock.now()).await.map_err(Refused::of)?;
    app.reload(&Topic::Lexicons).await.map_err(Refused::of)?;
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct GivenTime {
    time: String,
}

fn time(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenTime { time } = parse("given.time", input)?;
    let at = Timestamp::parse(&time)
        .map_err(|_| Refused(format!("given.time: {time:?} is not a time such as 2026-01-01T00:00:00Z")))?;
    world.clock.set(at);
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct GivenRandom {
    seed: i64,
}

fn random(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenRandom { seed } = parse("given.random", input)?;
    world.app.random.reseed(seed.cast_unsigned());
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct GivenHttp {
    request: String,
    #[serde(flatten)]
    answer: AnswerFields,
}

#[derive(Deserialize)]
struct AnswerFields {
    status: Option<u16>,
    headers: Option<Map<String, Value>>,
    body: Option<Value>,
    fails: Option<String>,
}

impl AnswerFields {
    fn check(self, function: &str) -> Result<GivenAnswer, Refused> {
        if let Some(text) = self.fails {
            return Ok(GivenAnswer::Failure(text));
        }
        let status = StatusCode::from_u16(self.status.unwrap_or(200))
            .map_err(|_| Refused(format!("{function}: status must be an integer from 100 to 999")))?;
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers.unwrap_or_default() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let bad = || Refused(format!("{function}: {name:?} with {value:?} is not a header"));
            headers.append(
                HeaderName::try_from(name.as_str()).map_err(|_| bad())?,
                HeaderValue::try_from(value.as_str()).map_err(|_| bad())?,
            );
        }
        let body = match self.body {
            None | Some(Value::Null) => Bytes::new(),
            Some(Value::String(text)) => text.into(),
            Some(other) => other.to_string().into(),
        };
        Ok(GivenAnswer::Response(FetchedResponse { status, headers, body }))
    }
}

fn http(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenHttp { request, answer } = parse("given.http", input)?;
    let (method, url) = request.split_once(' ').unwrap_or(("GET", &request));
    let method = Method::try_from(method)
        .map_err(|_| Refused(format!("given.http: {method:?} is not a method such as POST")))?;
    let url =
        Url::parse(url).map_err(|error| Refused(format!("given.http: {url:?} is not a URL: {error}")))?;
    world.network.add_http(method, &url, answer.check("given.http")?).map_err(Refused::of)?;
    Ok(Value::Null)
}

#[derive(Deserialize)]
struct GivenPds {
    method: String,
    #[serde(flatten)]
    answer: AnswerFields,
}

fn of_pds(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let GivenPds { method, answer } = parse("given.pds", input)?;
    world.network.add_pds(&method, answer.check("given.pds")?).map_err(Refused::of)?;
    Ok(Value::Null)
}

fn plugin(world: &World, input: &[u8]) -> Result<Value, Refused> {
    let call: GivenCall = parse("given.plugin", input)?;
    world.plugins.add(call, input.len()).map_err(|why| Refused(format!("given.plugin: {why}")))?;
    Ok(Value::Null)
}
