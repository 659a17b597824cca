//! The settings of a space in bodies and answers, of both generations; `getConfig` and `updateConfig` of the older one.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::input;
use crate::app::App;
use belvedere_instance::spaces::{SpaceError, Viewer};
use belvedere_protocol::spaces::access::Policy;
use belvedere_protocol::spaces::app_gate::AppAccess;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::r10::policy;
use belvedere_protocol::spaces::{SpaceUri, h8};
use belvedere_storage::store::Patch;
use belvedere_storage::store::spaces::settings::{Settings, SettingsChange};
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_web::http::{Error, Request, Response, response};

/// Characters of `displayName`.
const MAX_NAME: usize = 200;
/// Characters of `description`.
const MAX_DESCRIPTION: usize = 5_000;

/// The fields of a body that set something. Policies have two forms.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SettingsBody {
    pub display_name: Patch<String>,
    pub description: Patch<String>,
    pub read_policy: Option<Value>,
    pub write_policy: Option<Value>,
    pub app_access: Option<Value>,
    pub config: Option<Map<String, Value>>,
    /// The word of the older generation, for both policies.
    pub mint_policy: Option<String>,
    pub policy: Option<String>,
    pub managing_app: Option<String>,
    pub managing_app_did: Option<String>,
}

impl SettingsBody {
    /// The settings of a new space. Without a policy only members read and write, and without a list every app may.
    pub fn of_new(self) -> Result<Settings, Error> {
        let change = self.change()?;
        let text = |patch| if let Patch::Set(text) = patch { Some(text) } else { None };
        Ok(Settings {
            display_name: text(change.display_name),
            description: text(change.description),
            read_policy: change.read_policy.unwrap_or(Policy::MemberList),
            write_policy: change.write_policy.unwrap_or(Policy::MemberList),
            app_access: change.app_access.unwrap_or(AppAccess::Open),
            config: change.config.unwrap_or_default(),
        })
    }

    /// The change of a space; absent fields stay.
    pub fn change(self) -> Result<SettingsChange, Error> {
        let older = self.older_policy()?;
        let policy =
            |given: Option<Value>| given.as_ref().map(policy::policy).transpose().map_err(SpaceError::from);
        let (read, write) = (policy(self.read_policy)?, policy(self.write_policy)?);
        let app_access = self.app_access.as_ref().map(|given| {
            if given.get("$type").is_some() { policy::app_access(given) } else { h8::app_access(given) }
        });
        let config = self.config.map(SpaceConfig::parse).transpose();
        Ok(SettingsChange {
            display_name: text("displayName", self.display_name, MAX_NAME)?,
            description: text("description", self.description, MAX_DESCRIPTION)?,
            read_policy: read.or_else(|| older.clone()),
            write_policy: write.or(older),
            app_access: app_access.transpose().map_err(SpaceError::from)?,
            config: config.map_err(|error| input::invalid(error.to_string()))?,
        })
    }

    fn older_policy(&self) -> Result<Option<Policy>, SpaceError> {
        let app = self.managing_app.as_deref().or(self.managing_app_did.as_deref());
        match self.mint_policy.as_deref().or(self.policy.as_deref()) {
            None => Ok(None),
            word => Ok(Some(h8::policy(word, app)?)),
        }
    }
}

fn text(name: &str, patch: Patch<String>, max: usize) -> Result<Patch<String>, Error> {
    match &patch {
        Patch::Set(text) if text.chars().count() > max => {
            Err(input::invalid(format!("{name} has more than {max} characters")))
        }
        _ => Ok(patch),
    }
}

/// The policies of a space, with the word of the older generation.
pub fn config_json(settings: &Settings) -> Value {
    let (word, app) = match &settings.read_policy {
        Policy::Public => ("public", None),
        Policy::MemberList => ("member-list", None),
        Policy::ManagingApp(app) => ("managing-app", Some(app.to_string())),
    };
    let mut config = json!({
        "$type": "com.atproto.simplespace.defs#spaceConfig",
        "readPolicy": policy::policy_json(&settings.read_policy),
        "writePolicy": policy::policy_json(&settings.write_policy),
        "appAccess": policy::app_access_json(&settings.app_access),
        "mintPolicy": word,
    });
    if let Some(app) = app {
        config["managingApp"] = app.into();
    }
    config
}

#[derive(Deserialize)]
struct ChangeBody {
    #[serde(deserialize_with = "input::text")]
    space: SpaceUri,
    #[serde(flatten)]
    settings: SettingsBody,
}

/// Changes a space as the body says. Returns it as it is then.
pub async fn change(app: &App, viewer: &Viewer, request: &Request) -> Result<SpaceRow, Error> {
    let body: ChangeBody = input::body(request)?;
    Ok(app.spaces.update(&body.space, viewer, &body.settings.change()?).await?)
}

/// `GET getConfig?space=`: for administrators.
pub async fn get(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let space = app.spaces.get_administered(&input::space(&request)?, &viewer).await?;
    Ok(response::json(StatusCode::OK, &config_json(&space.settings)))
}

/// `POST updateConfig`
pub async fn update(app: Arc<App>, viewer: Viewer, request: Request) -> Result<Response, Error> {
    let space = change(&app, &viewer, &request).await?;
    Ok(response::json(StatusCode::OK, &config_json(&space.settings)))
}
