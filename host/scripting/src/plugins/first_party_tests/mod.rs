//! The plugins of this repository against stand-ins of their services, through the engine and on both databases. Their
//! manifests are used with `localhost` in place of the services' hosts, and the secret `PROXY_URL` leads there.

mod steam;

use std::path::PathBuf;
use std::sync::Arc;

use belvedere_standins::database::Database;
use belvedere_standins::itchio::{self, Itchio};
use belvedere_standins::microsoft::{self, Microsoft};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::calls::{
    CallError, CallScope, Callback, Calls, Expiry, FaultCode, Item, Linker as _, Profile, RunContext, Start,
    Tokens,
};
use super::check::examine;
use super::folder;
use super::manifest::{Grants, Permission};
use super::{EngineConfig, LoadedPlugin, PluginEngine, PluginServices, PluginStatus};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::config::Secret;
use belvedere_instance::events::EventLog;
use belvedere_instance::keys::attestation::Attestation;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_storage::store::Db;
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{self, Client, Limits};

/// 2023-11-14T22:13:20.123456Z
const NOW: Timestamp = Timestamp(1_700_000_000_123_456);
const NOW_TEXT: &str = "2023-11-14T22:13:20Z";

const STATE: &str = "state-of-the-sign-in";
const REDIRECT_URI: &str = "https://belvedere.example/external-auth/plugin/callback";

/// Large enough for every answer here, short enough for a test.
const LIMITS: Limits = Limits { max_bytes: 1 << 20, total: std::time::Duration::from_secs(10) };

/// The folder of a built plugin.
fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(3).unwrap().join("plugins").join(name);
    assert!(folder.join("plugin.wasm").exists(), "build the plugins: sh dev/plugins.sh");
    folder
}

/// One engine for the tests of a process; compiled plugins are shared by all processes.
async fn engine() -> PluginEngine {
    static ENGINE: OnceCell<PluginEngine> = OnceCell::const_new();
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let cache = std::env::temp_dir().join(format!("belvedere-test-plugins-{user}"));
    let open = async || PluginEngine::open(EngineConfig::in_this_process(cache)).unwrap();
    ENGINE.get_or_init(open).await.clone()
}

/// A plugin that is installed, with an empty database.
struct Stage {
    calls: Calls,
    plugin: Arc<LoadedPlugin>,
    requested: Vec<Permission>,
    browser: Client,
    _database: Database,
}

impl Stage {
    async fn set(database: Database, name: &str, secrets: &[(&str, &str)]) -> Self {
        let db = Db::open(&database.url, 4).await.unwrap();
        db.migrate().await.unwrap();
        let (clock, random) = (Clock::fixed(NOW), Random::system());
        let (events, _) = EventLog::start(db.clone(), clock.clone(), random.clone());
        let key = PrivateKey::from_bytes(Algorithm::Es256k, &[7; 32]).unwrap();
        let attestation =
            Attestation::new(key, "did:web:x.test#attestation".to_owned(), "com.example.sig".to_owned());
        let secrets: Vec<(String, String)> =
            secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let id = name.to_owned();
        let find = move |plugin: &str, name: &str| {
            let found = secrets.iter().find(|(known, _)| plugin == id && known == name);
            found.map(|(_, value)| Secret::new(value.clone()))
        };
        let browser = net::testing::loopback();
        let services = PluginServices::new(db, browser.clone(), clock, random, events, Arc::new(attestation));
        let calls = Calls::new(engine().await, services.with_secrets(Arc::new(find)));
        let package = folder::read_one(&built(name)).package.unwrap();
        let examined = examine(&engine().await, &calls, package).await.unwrap();
        let local: Permission = "network:request?host=localhost".parse().unwrap();
        let granted =
            examined.requested.iter().filter(|one| !matches!(one, Permission::Network { .. })).cloned();
        let plugin = Arc::new(LoadedPlugin {
            manifest: examined.package.manifest.manifest.clone().into(),
            grants: Grants::new(granted.chain([local]).collect()),
            component: examined.component,
            status: PluginStatus::Active,
            functions: examined.functions,
        });
        Self { calls, plugin, requested: examined.requested, browser, _database: database }
    }

    /// The user signs in at the service, in a browser that follows its redirect.
    async fn callback(&self) -> Callback {
        let start =
            Start { state: STATE.to_owned(), redirect_uri: REDIRECT_URI.to_owned(), config: "{}".to_owned() };
        let url = self.calls.of(&self.plugin).authorize_url(&scope(), start).await.unwrap();
        let page = self.browser.get(&url, LIMITS).await.unwrap();
        let text = String::from_utf8_lossy(&page.body).into_owned();
        let location = page.headers.get("location").unwrap_or_else(|| panic!("{url}: {text}"));
        let back = url::Url::parse(location.to_str().unwrap()).unwrap();
        assert!(back.as_str().starts_with(REDIRECT_URI), "{back}");
        let params: Vec<(String, String)> = back.query_pairs().into_owned().collect();
        assert!(params.contains(&("state".to_owned(), STATE.to_owned())), "{back}");
        Callback {
            state: STATE.to_owned(),
            redirect_uri: REDIRECT_URI.to_owned(),
            params,
            config: "{}".to_owned(),
        }
    }

    async fn finish(&self, callback: Callback) -> Result<Tokens, CallError> {
        self.calls.of(&self.plugin).handle_callback(&scope(), callback).await
    }

    async fn link(&self) -> Tokens {
        self.finish(self.callback().await).await.unwrap()
    }

    async fn profile(&self, tokens: &Tokens) -> Result<Profile, CallError> {
        self.calls.of(&self.plugin).profile(&scope(), tokens, "{}").await
    }

    async fn refresh(&self, tokens: &Tokens) -> Result<Tokens, CallError> {
        self.calls.of(&self.plugin).refresh(&scope(), tokens, "{}").await
    }

    /// All pages.
    async fn sync(&self, tokens: &Tokens) -> Result<Vec<Vec<Item>>, CallError> {
        let (mut pages, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let pulled = self.calls.of(&self.plugin).pull(&scope(), tokens, "{}", cursor.as_deref()).await?;
            pages.push(pulled.items);
            assert!(pulled.next.is_none() || pulled.next != cursor);
            cursor = pulled.next;
            if cursor.is_none() {
                return Ok(pages);
            }
        }
    }

    async fn call(&self, function: &str, args: Value) -> Result<Value, CallError> {
        let calls = &self.calls;
        let result = calls
            .call_function(&self.plugin, &scope(), function, &args.to_string(), &RunContext::default())
            .await?;
        Ok(serde_json::from_str(&result).unwrap())
    }
}

fn scope() -> CallScope {
    CallScope {
        tenant: Tenant::Instance,
        did: Some(Did::try_from("did:plc:alice").unwrap()),
        flow: Some("0".repeat(64)),
    }
}

async fn both() -> [Database; 2] {
    [Database::sqlite(), Database::postgres().await]
}

fn code<T>(result: Result<T, CallError>) -> (FaultCode, String) {
    match result {
        Err(CallError::Fault(fault)) => (fault.code, fault.message),
        Err(other) => panic!("no fault: {other}"),
        Ok(_) => panic!("no error"),
    }
}

fn sizes(pages: &[Vec<Item>]) -> Vec<usize> {
    pages.iter().map(Vec::len).collect()
}

fn value(item: &Item) -> Value {
    serde_json::from_str(&item.value).unwrap()
}

async fn xbox_stage(database: Database, service: &Microsoft) -> Stage {
    let proxy = service.proxy_url();
    let secrets = [
        ("PROXY_URL", proxy.as_str()),
        ("CLIENT_ID", microsoft::CLIENT_ID),
        ("CLIENT_SECRET", microsoft::CLIENT_SECRET),
    ];
    Stage::set(database, "xbox", &secrets).await
}

#[tokio::test]
async fn xbox_links_refreshes_and_syncs() {
    for database in both().await {
        let service = Microsoft::start().await;
        service.set_titles(230);
        let stage = xbox_stage(database, &service).await;
        let tokens = stage.link().await;
        let profile = stage.profile(&tokens).await.unwrap();
        assert_eq!(profile.account_id, microsoft::XUID);
        assert_eq!(profile.display_name.as_deref(), Some("Major Nelson"));
        assert_eq!(tokens.expiry, Expiry::At(NOW.plus_seconds(3600)));

        service.expire_access_tokens();
        assert_eq!(code(stage.profile(&tokens).await).0, FaultCode::NeedsReauth);
        let renewed = stage.refresh(&tokens).await.unwrap();
        assert_ne!(renewed.access, tokens.access);
        assert_eq!(code(stage.refresh(&tokens).await).0, FaultCode::NeedsReauth, "refresh tokens work once");

        let pages = stage.sync(&renewed).await.unwrap();
        assert_eq!(sizes(&pages), [100, 100, 30], "the app is no game");
        let expected = json!({"$type": "dev.games.actor.ownership", "platform": "xbox", "externalId": "1",
            "title": "Game 1"});
        assert_eq!(value(&pages[0][0]), expected);

        service.refuse(Some(2_148_916_233));
        let (found, message) = code(stage.profile(&renewed).await);
        assert_eq!(found, FaultCode::Forbidden);
        assert!(message.contains("no Xbox profile"), "{message}");
        service.end_sign_ins();
        assert_eq!(code(stage.refresh(&renewed).await).0, FaultCode::NeedsReauth);
    }
}

#[tokio::test]
async fn a_code_can_be_redeemed_only_by_the_sign_in_that_began() {
    let service = Microsoft::start().await;
    let stage = xbox_stage(Database::sqlite(), &service).await;
    let callback = stage.callback().await;
    let other = CallScope { flow: Some("1".repeat(64)), ..scope() };
    let finished = stage.calls.of(&stage.plugin).handle_callback(&other, callback.clone()).await;
    assert!(code(finished).1.contains("begin again"));
    stage.finish(callback.clone()).await.unwrap();
    assert_eq!(code(stage.finish(callback).await).0, FaultCode::NeedsReauth);
}

async fn itchio_stage(database: Database, service: &Itchio) -> Stage {
    let proxy = service.proxy_url();
    Stage::set(database, "itchio", &[("PROXY_URL", &proxy), ("CLIENT_ID", itchio::CLIENT_ID)]).await
}

#[tokio::test]
async fn itchio_links_refreshes_and_syncs() {
    for database in both().await {
        let service = Itchio::start().await;
        service.set_games(120);
        let stage = itchio_stage(database, &service).await;
        let tokens = stage.link().await;
        let profile = stage.profile(&tokens).await.unwrap();
        assert_eq!(profile.account_id, itchio::USER_ID.to_string());
        assert_eq!(profile.display_name.as_deref(), Some("Maker"));
        assert_eq!(profile.avatar_url.as_deref(), Some("https://img.example/cover.png"));
        assert_eq!(tokens.expiry, Expiry::At(NOW.plus_seconds(3600)));

        service.expire_access_tokens();
        assert_eq!(code(stage.profile(&tokens).await).0, FaultCode::NeedsReauth);
        let renewed = stage.refresh(&tokens).await.unwrap();

        let pages = stage.sync(&renewed).await.unwrap();
        assert_eq!(sizes(&pages), [50, 50, 20]);
        let expected = json!({"$type": "dev.games.actor.ownership", "platform": "itchio", "externalId": "1",
            "title": "Game 1", "url": "https://maker.itch.io/game-1"});
        assert_eq!(value(&pages[0][0]), expected);
        service.set_games(0);
        assert_eq!(sizes(&stage.sync(&renewed).await.unwrap()), [0]);

        let revoked = stage.calls.of(&stage.plugin).revoke(&scope(), &renewed).await;
        assert_eq!(code(revoked).0, FaultCode::Unsupported);
        service.end_sign_ins();
        assert_eq!(code(stage.refresh(&renewed).await).0, FaultCode::NeedsReauth);
    }
}

#[tokio::test]
async fn markdown_renders_safe_html() {
    let stage = Stage::set(Database::sqlite(), "markdown", &[]).await;
    let html =
        stage.call("render", json!(["*hi* [a](javascript:alert(1))<script>x</script>"])).await.unwrap();
    assert_eq!(html, json!("<p><em>hi</em> <a rel=\"nofollow noopener\">a</a></p>\n"));
    assert_eq!(stage.call("to_text", json!(["# *hi*"])).await.unwrap(), json!("hi"));
    assert_eq!(stage.call("sanitize", json!(["<b onclick=x>a"])).await.unwrap(), json!("<b>a</b>"));
    assert_eq!(code(stage.call("render", json!([1])).await).0, FaultCode::BadInput);
    // The longest texts end within a call's time and memory.
    let nested = "<b><p>".repeat(5_000);
    assert!(stage.call("sanitize", json!([nested])).await.is_ok());
    assert_eq!(code(stage.call("sanitize", json!([nested + "<b>"])).await).0, FaultCode::TooLarge);
    for unit in ["> ", "- ", "[", "*a ", "`", "![](", "a\n\n"] {
        let rendered = stage.call("render", json!([unit.repeat((256 << 10) / unit.len())])).await;
        assert!(!matches!(rendered, Err(CallError::Failed(_))), "{unit}: {rendered:?}");
    }
}

#[tokio::test]
async fn the_plugins_ask_for_their_own_hosts_and_collections() {
    for (name, expected) in [
        ("markdown", &[][..]),
        (
            "steam",
            &[
                "network:request?host=steamcommunity.com&method=POST",
                "network:request?host=api.steampowered.com&method=GET",
                "records:write?collection=dev.games.actor.ownership",
                "records:write?collection=dev.games.actor.stats",
                "records:read?collection=dev.games.game",
                "attest:sign",
                "secrets:read",
                "kv:use",
            ],
        ),
        (
            "itchio",
            &[
                "network:request?host=api.itch.io&method=GET&method=POST",
                "records:write?collection=dev.games.actor.ownership",
                "attest:sign",
                "secrets:read",
                "kv:use",
            ],
        ),
        (
            "xbox",
            &[
                "network:request?host=login.microsoftonline.com&method=POST",
                "network:request?host=user.auth.xboxlive.com&method=POST",
                "network:request?host=xsts.auth.xboxlive.com&method=POST",
                "network:request?host=profile.xboxlive.com&method=GET",
                "network:request?host=titlehub.xboxlive.com&method=GET",
                "records:write?collection=dev.games.actor.ownership",
                "attest:sign",
                "secrets:read",
                "kv:use",
            ],
        ),
    ] {
        let stage = Stage::set(Database::sqlite(), name, &[]).await;
        let mut requested: Vec<String> = stage.requested.iter().map(ToString::to_string).collect();
        let mut expected: Vec<&str> = expected.to_vec();
        requested.sort_unstable();
        expected.sort_unstable();
        assert_eq!(requested, expected, "{name}");
    }
}
