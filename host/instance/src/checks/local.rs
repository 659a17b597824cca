//! Checks of this host: configuration, data folder, secrets.

use super::Check;
use crate::config::{Config, Identity, SecretError};
use belvedere_storage::store::script_sql::role::ScriptRole;

/// The configuration, which was checked at the start: an invalid one ends the program.
pub fn configuration(config: &Config, identity: &Identity) -> Vec<Check> {
    let proxies = config.server.proxy_advice().unwrap_or("nothing to set").to_owned();
    vec![
        Check::new("configuration", "configuration", Ok(format!("{} as {}", identity.origin, identity.did))),
        Check::new("data_folder", "data folder", data_folder(config)),
        Check::new("proxies", "proxies", Ok(proxies)),
    ]
}

/// Whether the data folder can be written.
fn data_folder(config: &Config) -> Result<String, String> {
    let dir = &config.server.data_dir;
    let shown = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    // The folder in which something would be created first.
    let existing = shown.ancestors().find(|folder| folder.exists()).unwrap_or(&shown);
    let probe = existing.join(".doctor");
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
        format!("{} can't be written ({error}). Fix its owner, or set DATA_DIR", existing.display())
    })?;
    let later = if existing == shown { "" } else { " does not exist yet; the first start creates it" };
    Ok(format!("{}{later}", shown.display()))
}

/// Checks the secrets that the server will use. Values that other secrets encrypted are lost to it.
pub fn secrets(config: &Config, key: &Result<Option<ScriptRole>, SecretError>) -> Check {
    let result = match key {
        Ok(_) if config.secrets.are_given() => Ok("configured".to_owned()),
        Ok(Some(_)) => Ok("in the data folder; keep them with the backup".to_owned()),
        Ok(None) => Ok("none yet; the first start generates them in the data folder".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Check::new("secrets", "secrets", result)
}
