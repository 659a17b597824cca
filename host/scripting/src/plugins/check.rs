//! Examines the files of a plugin before anything of them is stored: the module must be what its manifest says.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::calls::{CallError, Calls};
use super::consent;
use super::engine::{Component, Exports, LoadError, PluginEngine, Surface};
use super::limits;
use super::manifest::{AuthType, Manifest, Permission};
use super::package::Package;
use super::values::{AuthKind, Function, Info};

/// A plugin whose module was compiled and agrees with the manifest.
#[derive(Clone, Debug)]
pub struct Examined {
    pub package: Package,
    pub component: Component,
    /// The functions of a library.
    pub functions: Vec<Function>,
    /// All that it asks for.
    pub requested: Vec<Permission>,
}

/// A plugin whose module was read but not compiled.
#[derive(Clone, Debug)]
pub struct Inspected {
    pub package: Package,
    pub surface: Surface,
    /// All that it asks for.
    pub requested: Vec<Permission>,
}

/// The reason why a plugin can't be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CheckError {
    /// The text is for the operator.
    #[error("{0}")]
    Invalid(String),
    /// Too many calls of plugins are running, or the compiler could not: another attempt may succeed.
    #[error("too many plugins are being compiled or running; try again in a moment")]
    Busy,
}

impl From<LoadError> for CheckError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Invalid(text) => Self::Invalid(text),
            LoadError::Unavailable(cause) => {
                tracing::error!(cause, "a module of a plugin could not be compiled");
                Self::Busy
            }
        }
    }
}

/// Compiles the module, asks it what it is, and compares that with the manifest.
///
/// # Errors
/// The first disagreement.
pub async fn examine(engine: &PluginEngine, calls: &Calls, package: Package) -> Result<Examined, CheckError> {
    let manifest = &package.manifest.manifest;
    let component = engine.load(&package.module).await?;
    let requested = fits(manifest, component.exports, &component.imports)?;
    agrees(manifest, &call("describe", calls.describe(&component)).await?)?;
    let functions = functions(calls, &component).await?;
    Ok(Examined { package, component, functions, requested })
}

/// Reads what the module imports and exports, and compares that with the manifest. Neither compiles it nor asks it what it
/// is.
///
/// # Errors
/// The first disagreement.
pub async fn inspect(package: Package) -> Result<Inspected, CheckError> {
    let surface = PluginEngine::inspect(package.module.clone()).await?;
    let requested = fits(&package.manifest.manifest, surface.exports, &surface.imports)?;
    Ok(Inspected { package, surface, requested })
}

/// All that a plugin asks for, if its module fits its manifest.
fn fits(
    manifest: &Manifest,
    exports: Exports,
    imports: &[&'static str],
) -> Result<Vec<Permission>, CheckError> {
    exports_fit(manifest, exports)?;
    for permission in &manifest.permissions {
        if let Permission::Network { host, .. } = permission {
            host.check_owner()
                .map_err(|error| CheckError::Invalid(format!("manifest.json: hosts: {error}")))?;
        }
    }
    let requested = consent::requested(manifest, imports);
    // No grant could make up for it.
    let all = consent::of_configured(&requested, true);
    consent::missing(imports, &requested, &all).map_or(Ok(requested), |text| Err(CheckError::Invalid(text)))
}

/// The functions of a library; none of another plugin.
///
/// # Errors
/// When the plugin fails.
pub async fn functions(calls: &Calls, component: &Component) -> Result<Vec<Function>, CheckError> {
    if !component.exports.callable {
        return Ok(Vec::new());
    }
    call("surface", calls.surface(component)).await
}

async fn call<T>(function: &str, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CheckError> {
    let began = Instant::now();
    call.await.map_err(|error| match error {
        CallError::Busy => CheckError::Busy,
        // The module's own time ends much earlier, so the call waited for its turns.
        CallError::Failed(_) if began.elapsed() >= limits::CALL_TIME => CheckError::Busy,
        error => CheckError::Invalid(format!("the module failed in {function}: {error}")),
    })
}

/// Whether the module exports what accounts of its kind need.
fn exports_fit(manifest: &Manifest, exports: Exports) -> Result<(), CheckError> {
    let writes = manifest.permissions.iter().any(|one| matches!(one, Permission::WriteRecords(_)));
    let reason = match manifest.auth_type {
        AuthType::None if exports.linking => "auth_type is none, but the module exports linking",
        AuthType::None if !exports.callable => "auth_type is none, but the module does not export callable",
        AuthType::Oauth2 | AuthType::Openid | AuthType::ApiKey if !exports.linking => {
            "auth_type says that the plugin links accounts, but the module does not export linking"
        }
        _ if exports.sync && !exports.linking => "the module exports sync, but not linking",
        _ if writes && !exports.sync => "the manifest lists collections, but the module does not export sync",
        _ => return Ok(()),
    };
    Err(CheckError::Invalid(reason.to_owned()))
}

/// Whether the module says of itself what the manifest says.
fn agrees(manifest: &Manifest, info: &Info) -> Result<(), CheckError> {
    let differs = |what: &str, manifest: &str, module: &str| {
        let text = format!(
            "the manifest has the {what} {manifest:?}, but the module describes itself with {module:?}"
        );
        Err(CheckError::Invalid(text))
    };
    if manifest.id != info.id {
        return differs("id", &manifest.id, &info.id);
    }
    let version = manifest.version.to_string();
    if version != info.version {
        return differs("version", &version, &info.version);
    }
    let auth = match info.auth {
        AuthKind::Oauth2 => AuthType::Oauth2,
        AuthKind::Openid => AuthType::Openid,
        AuthKind::ApiKey => AuthType::ApiKey,
        AuthKind::None => AuthType::None,
    };
    if manifest.auth_type != auth {
        return differs("auth_type", &format!("{:?}", manifest.auth_type), &format!("{auth:?}"));
    }
    let listed: BTreeSet<&str> = manifest.secret_names().collect();
    let described: BTreeSet<&str> = info.secrets.iter().map(|secret| secret.name.as_str()).collect();
    if listed != described {
        let names = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(", ");
        return differs("secrets", &names(&listed), &names(&described));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::calls::{Failure, FailureCause};
    use crate::plugins::values::SecretInfo;

    fn manifest(more: &serde_json::Value) -> Manifest {
        let mut file = json!({ "id": "steam", "name": "Steam", "version": "1.2.0", "api_version": "1",
            "auth_type": "openid", "required_secrets": [{ "key": "PLUGIN_STEAM_API_KEY", "name": "Key" }] });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Manifest::parse(file.to_string().as_bytes()).unwrap()
    }

    fn info() -> Info {
        let secret = SecretInfo { name: "API_KEY".to_owned(), label: "Key".to_owned(), help: None };
        Info {
            id: "steam".to_owned(),
            name: "Other names are no disagreement".to_owned(),
            version: "1.2.0".to_owned(),
            auth: AuthKind::Openid,
            secrets: vec![secret],
            config_schema: None,
        }
    }

    #[test]
    fn a_module_that_describes_itself_otherwise_is_refused() {
        let manifest = manifest(&json!({}));
        assert_eq!(agrees(&manifest, &info()), Ok(()));
        let refused = |change: fn(&mut Info)| {
            let mut info = info();
            change(&mut info);
            agrees(&manifest, &info).unwrap_err().to_string()
        };
        assert!(refused(|info| info.id = "xbox".to_owned()).contains("id \"steam\""));
        assert!(refused(|info| info.version = "1.2.1".to_owned()).contains("version"));
        assert!(refused(|info| info.auth = AuthKind::Oauth2).contains("auth_type"));
        assert!(refused(|info| info.secrets.clear()).contains("secrets"));
        assert!(refused(|info| info.secrets[0].name = "OTHER".to_owned()).contains("OTHER"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_for_too_long_may_succeed_later() {
        let failed = || Err::<(), _>(CallError::Failed(Failure::new(FailureCause::Trap, "trap")));
        let error = call("describe", async { failed() }).await.unwrap_err();
        assert_eq!(error, CheckError::Invalid("the module failed in describe: trap".to_owned()));
        let late = async {
            tokio::time::advance(limits::CALL_TIME).await;
            failed()
        };
        assert_eq!(call("describe", late).await.unwrap_err(), CheckError::Busy);
        assert_eq!(call("describe", async { Err::<(), _>(CallError::Busy) }).await, Err(CheckError::Busy));
    }

    #[test]
    fn hosts_of_many_owners_are_refused() {
        let asking = |host: &str| {
            let linking = Exports { linking: true, ..Exports::default() };
            fits(&manifest(&json!({ "hosts": [host] })), linking, &[])
        };
        assert!(asking("*.example.com").is_ok());
        let error = asking("*.github.io").unwrap_err().to_string();
        assert!(error.starts_with("manifest.json: hosts: *.github.io belongs to many owners"), "{error}");
    }

    #[test]
    fn exports_fit_the_kind_of_accounts() {
        let (linking, sync, callable) = (true, true, true);
        let none = json!({ "auth_type": "none", "required_secrets": [] });
        let writes = json!({ "collections": ["com.example.note"] });
        for (more, exports, fits) in [
            (&json!({}), Exports { linking, ..Exports::default() }, true),
            (&json!({}), Exports { linking, sync, callable }, true),
            (&json!({}), Exports { sync, ..Exports::default() }, false),
            (&json!({}), Exports { callable, ..Exports::default() }, false),
            (&none, Exports { callable, ..Exports::default() }, true),
            (&none, Exports::default(), false),
            (&none, Exports { linking, callable, ..Exports::default() }, false),
            (&none, Exports { sync, callable, ..Exports::default() }, false),
            (&writes, Exports { linking, sync, ..Exports::default() }, true),
            (&writes, Exports { linking, ..Exports::default() }, false),
        ] {
            assert_eq!(exports_fit(&manifest(more), exports).is_ok(), fits, "{more} {exports:?}");
        }
    }
}
