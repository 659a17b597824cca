//! `/external-auth/*`: users link accounts of a service through the plugin `probe`, and sync them into their repos.

mod flow;
mod refusals;
mod sync;

use std::path::{Path, PathBuf};

use belvedere_standins::database::sqlite_url;
use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::auth::Browser;
use crate::fixtures::{ALICE, BOB, World};
use crate::support::app::{App, Device};
use crate::support::instance::{Answer, Instance};
use crate::support::linked_service::LinkedService;
use crate::support::oauth_pds::OauthPds;

/// The application's URL to which its users return.
pub const BACK: &str = "https://game.example/linked";

/// A server with the plugin, its service, a PDS, and an application that Alice uses.
pub struct Stage {
    pub world: World,
    pub service: LinkedService,
    pub pds: OauthPds,
    pub app: App,
    pub alice: Device,
    _plugins: TempDir,
}

/// A folder for `PLUGIN_DIR` with the plugin `probe`, which `dev/plugins.sh` has built.
pub fn plugin_folder() -> TempDir {
    let built: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../plugins/probe");
    assert!(built.join("plugin.wasm").exists(), "build the plugin first: sh dev/plugins.sh probe");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(built, folder.path().join("probe")).unwrap();
    folder
}

impl Stage {
    pub async fn sqlite() -> Self {
        let (url, directory) = sqlite_url();
        Self::on(&url, Some(directory)).await
    }

    pub async fn postgres() -> Self {
        Self::on(&postgres::create_database().await, None).await
    }

    async fn on(url: &str, directory: Option<TempDir>) -> Self {
        let (service, plugins) = (LinkedService::start().await, plugin_folder());
        let folder = plugins.path().display().to_string();
        let more = [("PLUGIN_DIR", folder.as_str()), ("PLUGIN_PROBE_PROXY_URL", &service.url())];
        let world = World::on_with(url, directory, &more).await.with_notes().await;
        let pds = OauthPds::start().await;
        for did in [ALICE, BOB] {
            world.plc.host(did, &pds.url());
        }
        let app = App::confidential(&world.server, "game").await;
        let alice = app.device(&world.server, &pds, ALICE, json!({})).await;
        Self { world, service, pds, app, alice, _plugins: plugins }
    }

    pub fn server(&self) -> &Instance {
        &self.world.server
    }

    /// Sends a request of Alice's device.
    pub async fn alice(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.alice.request(self.server(), method, &format!("/external-auth/{path}"), body).await
    }

    /// Begins a sign-in as Alice. Returns the path of the page on which she consents.
    pub async fn begin(&self) -> String {
        let path = format!("/external-auth/probe/authorize?redirect_uri={BACK}");
        let begun = self.alice.request(self.server(), Method::GET, &path, None).await;
        assert_eq!(begun.status, 200, "{}", begun.text);
        self.path_of(begun.body["authorize_url"].as_str().unwrap())
    }

    /// The path and query of a URL of the server.
    pub fn path_of(&self, url: &str) -> String {
        let own = format!("http://{}", self.server().address);
        url.strip_prefix(&own).unwrap_or_else(|| panic!("not ours: {url}")).to_owned()
    }

    /// Consents on the page, and signs in at the service. Returns the path of the callback.
    pub async fn sign_in(&self, browser: &mut Browser, page: &str, account: &str) -> String {
        let to = location(&browser.post(self.server(), page, &json!({})).await);
        self.path_of(&self.service.sign_in(&to, account))
    }

    /// Links an account of Alice's.
    pub async fn link(&self, account: &str) {
        let mut browser = Browser::default();
        let page = self.begin().await;
        let back = self.sign_in(&mut browser, &page, account).await;
        assert_eq!(location(&browser.get(self.server(), &back).await), format!("{BACK}?auth=success"));
    }

    /// The accounts that Alice has linked.
    pub async fn accounts(&self) -> Vec<Value> {
        let listed = self.alice(Method::GET, "accounts", None).await;
        assert_eq!(listed.status, 200, "{}", listed.text);
        listed.body.as_array().unwrap().clone()
    }

    /// The events of a type, newest first.
    pub async fn events(&self, kind: &str) -> Vec<Value> {
        let path = format!("/admin/events?event_type=external_account.{kind}");
        let found = self.server().admin(Method::GET, &path, None).await;
        found.body["events"].as_array().unwrap_or_else(|| panic!("{}", found.text)).clone()
    }
}

/// The target of a redirect.
pub fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().unwrap().to_owned()
}

/// Turns each test function into two tests: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name($crate::external_auth::Stage::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name($crate::external_auth::Stage::postgres().await).await;
            }
        })*
    };
}
use on_both;
