//! The two secrets of an instance: configured, or generated once and stored in the data folder.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use clap::Args;
use zeroize::Zeroizing;

use super::{Problems, Secret, parse};
use belvedere_base::files;
use belvedere_base::random::Random;

/// The minimum length of the secret that signs session cookies (service.md).
const MIN_SESSION_SECRET: usize = 64;
/// Random bytes in a generated session secret, which is their hex form.
const GENERATED_SESSION_BYTES: usize = 48;
/// AES-256.
const ENCRYPTION_KEY_BYTES: usize = 32;
const ENCRYPTION_VARIABLE: &str = "TOKEN_ENCRYPTION_KEY";
/// Words that occur only in example values, which are publicly known.
const EXAMPLE_WORDS: &[&str] = &["changeme", "change-me", "change_me", "example", "replace", "your-secret"];
/// The minimum number of different characters: a text with fewer is not random.
const MIN_DIFFERENT_CHARS: usize = 8;

#[derive(Clone, Default, Args)]
#[command(next_help_heading = "Secrets")]
pub struct SecretsArgs {
    /// At least 64 random characters that sign session cookies [default: generated once, DATA_DIR/session-secret]
    #[arg(
        long = "session-secret",
        env = "SESSION_SECRET",
        global = true,
        value_name = "TEXT",
        hide_env_values = true
    )]
    pub session: Option<String>,
    /// base64 of 32 bytes that encrypt tokens at rest [default: generated once, DATA_DIR/token-encryption-key]
    #[arg(
        long = "token-encryption-key",
        env = "TOKEN_ENCRYPTION_KEY",
        global = true,
        value_name = "BASE64",
        hide_env_values = true
    )]
    pub encryption: Option<String>,
}

impl std::fmt::Debug for SecretsArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretsArgs").finish_non_exhaustive()
    }
}

/// The configured secrets. [`Secrets::load`] adds the missing ones.
#[derive(Clone, Debug)]
pub struct Secrets {
    session: Option<Secret<String>>,
    encryption: Option<EncryptionKey>,
    dir: PathBuf,
}

pub type EncryptionKey = Secret<[u8; ENCRYPTION_KEY_BYTES]>;

/// Both secrets.
#[derive(Clone, Debug)]
pub struct LoadedSecrets {
    pub session: Secret<String>,
    pub encryption: EncryptionKey,
}

/// The reason why a stored secret can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("{path} can't be read or written: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path} does not contain a valid {variable}: {reason}. Set {variable}, or restore the file")]
    Unusable { path: PathBuf, variable: &'static str, reason: &'static str },
}

impl SecretsArgs {
    pub(super) fn check(self, data_dir: &Path, problems: &mut Problems) -> Secrets {
        let session = parse::text(self.session).and_then(|text| match session_secret(&text) {
            Ok(()) => Some(Secret::new(text)),
            Err(reason) => {
                let fix = "generate one with `openssl rand -hex 48`, or leave it unset to have one generated";
                problems.add("SESSION_SECRET", format!("{reason}; {fix}"));
                None
            }
        });
        let encryption = parse::text(self.encryption).and_then(|text| match encryption_key(&text) {
            Ok(key) => Some(Secret::new(*key)),
            Err(reason) => {
                let fix =
                    "generate one with `openssl rand -base64 32`, or leave it unset to have one generated";
                problems.add("TOKEN_ENCRYPTION_KEY", format!("{reason}; {fix}"));
                None
            }
        });
        Secrets { session, encryption, dir: data_dir.to_owned() }
    }
}

impl Secrets {
    /// Whether both are configured, so that nothing has to be stored.
    pub fn are_given(&self) -> bool {
        self.session.is_some() && self.encryption.is_some()
    }

    /// Returns the configured secrets. Missing ones are read from the data folder, or generated and stored there (mode
    /// 0600).
    ///
    /// # Errors
    /// When the folder can't be used, or a stored secret is damaged. A damaged secret is never replaced: values
    /// encrypted with it would be lost.
    pub fn load(&self, random: &Random) -> Result<LoadedSecrets, SecretError> {
        let session = match &self.session {
            Some(given) => given.clone(),
            None => Secret::new(read_or_create(
                &self.dir.join("session-secret"),
                "SESSION_SECRET",
                session_secret,
                || random.hex(GENERATED_SESSION_BYTES),
            )?),
        };
        let encryption = if let Some(given) = &self.encryption {
            given.clone()
        } else {
            let generate = || STANDARD.encode(random.bytes::<ENCRYPTION_KEY_BYTES>());
            let path = self.encryption_path();
            let text = read_or_create(&path, ENCRYPTION_VARIABLE, check_encryption_key, generate)?;
            decode_encryption_key(text, path)?
        };
        Ok(LoadedSecrets { session, encryption })
    }

    /// The key that encrypts secrets at rest, if it is configured or stored. Generates and stores nothing.
    ///
    /// # Errors
    /// When the stored key can't be read or is damaged.
    pub fn existing_encryption_key(&self) -> Result<Option<EncryptionKey>, SecretError> {
        if let Some(given) = &self.encryption {
            return Ok(Some(given.clone()));
        }
        let path = self.encryption_path();
        let text = read(&path, ENCRYPTION_VARIABLE, check_encryption_key)?;
        text.map(|text| decode_encryption_key(text, path)).transpose()
    }

    fn encryption_path(&self) -> PathBuf {
        self.dir.join("token-encryption-key")
    }
}

fn decode_encryption_key(text: String, path: PathBuf) -> Result<EncryptionKey, SecretError> {
    let variable = ENCRYPTION_VARIABLE;
    let key = encryption_key(&Zeroizing::new(text));
    key.map(|key| Secret::new(*key)).map_err(|reason| SecretError::Unusable { path, variable, reason })
}

fn check_encryption_key(text: &str) -> Result<(), &'static str> {
    encryption_key(text).map(drop)
}

fn session_secret(text: &str) -> Result<(), &'static str> {
    let lower = text.to_ascii_lowercase();
    let different = text.chars().collect::<std::collections::HashSet<_>>().len();
    if EXAMPLE_WORDS.iter().any(|word| lower.contains(word)) {
        Err("it is an example value")
    } else if text.chars().count() < MIN_SESSION_SECRET {
        Err("it is shorter than 64 characters")
    } else if different < MIN_DIFFERENT_CHARS {
        Err("it repeats the same few characters")
    } else {
        Ok(())
    }
}

fn encryption_key(text: &str) -> Result<Zeroizing<[u8; ENCRYPTION_KEY_BYTES]>, &'static str> {
    let bytes = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
        .iter()
        .find_map(|alphabet| alphabet.decode(text).ok())
        .map(Zeroizing::new)
        .ok_or("it is not base64")?;
    if bytes.iter().all(|b| *b == bytes[0]) {
        return Err("it is an example value");
    }
    <[u8; ENCRYPTION_KEY_BYTES]>::try_from(bytes.as_slice())
        .map(Zeroizing::new)
        .map_err(|_| "it is not 32 bytes long")
}

/// Reads the secret in the file `path`, which is created with a generated secret if missing.
fn read_or_create(
    path: &Path,
    variable: &'static str,
    check: impl Fn(&str) -> Result<(), &'static str>,
    generate: impl FnOnce() -> String,
) -> Result<String, SecretError> {
    if let Some(secret) = read(path, variable, &check)? {
        return Ok(secret);
    }
    let secret = Zeroizing::new(generate());
    let created = files::create_once(path, secret.as_bytes())
        .map_err(|error| SecretError::Io { path: path.to_owned(), error })?;
    if created {
        tracing::info!(path = %path.display(), "generated {variable}; back this file up");
        return Ok((*secret).clone());
    }
    let missing = || SecretError::Io { path: path.to_owned(), error: io::ErrorKind::NotFound.into() };
    read(path, variable, &check)?.ok_or_else(missing)
}

/// Reads the secret in the file `path`; `None` if there is no such file.
fn read(
    path: &Path,
    variable: &'static str,
    check: impl Fn(&str) -> Result<(), &'static str>,
) -> Result<Option<String>, SecretError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SecretError::Io { path: path.to_owned(), error }),
    };
    check(&text).map_err(|reason| SecretError::Unusable { path: path.to_owned(), variable, reason })?;
    warn_if_readable(path);
    Ok(Some(text))
}

fn warn_if_readable(path: &Path) {
    if fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(path = %path.display(), "other users of this machine can read this secret: chmod 600 the file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(dir: &Path, session: Option<&str>) -> Result<Secrets, Problems> {
        let mut problems = Problems::default();
        let args = SecretsArgs { session: session.map(str::to_owned), encryption: None };
        let secrets = args.check(dir, &mut problems);
        problems.into_result(secrets)
    }

    #[test]
    fn are_generated_once_and_stored_privately() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let first = secrets(&data, None).unwrap().load(&Random::system()).unwrap();
        let second = secrets(&data, None).unwrap().load(&Random::system()).unwrap();
        assert_eq!(first.session.reveal(), second.session.reveal());
        assert_eq!(first.encryption.reveal(), second.encryption.reveal());
        assert!(first.session.reveal().len() >= MIN_SESSION_SECRET);
        for file in ["session-secret", "token-encryption-key"] {
            let mode = fs::metadata(data.join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!format!("{first:?}").contains(first.session.reveal()));
    }

    #[test]
    fn processes_that_start_at_once_have_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let data = &dir.path().join("data");
        let loaded: Vec<LoadedSecrets> = std::thread::scope(|scope| {
            let load = || secrets(data, None).unwrap().load(&Random::system()).unwrap();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for pair in loaded.windows(2) {
            assert_eq!(pair[0].session.reveal(), pair[1].session.reveal());
            assert_eq!(pair[0].encryption.reveal(), pair[1].encryption.reveal());
        }
    }

    #[test]
    fn an_existing_key_is_found_and_none_is_generated() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let secrets = secrets(&data, None).unwrap();
        assert!(secrets.existing_encryption_key().unwrap().is_none() && !data.exists());
        let loaded = secrets.load(&Random::system()).unwrap();
        let found = secrets.existing_encryption_key().unwrap().unwrap();
        assert_eq!(found.reveal(), loaded.encryption.reveal());
    }

    #[test]
    fn a_damaged_file_is_reported_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("session-secret"), "short").unwrap();
        let error = secrets(dir.path(), None).unwrap().load(&Random::system()).unwrap_err();
        assert!(error.to_string().contains("SESSION_SECRET"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("session-secret")).unwrap(), "short");
    }

    #[test]
    fn weak_session_secrets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let good = "0123456789abcdef".repeat(4);
        assert!(secrets(dir.path(), Some(&good)).is_ok());
        for bad in [&good[1..], &"a".repeat(64), &format!("change-me-{good}")] {
            let problems = secrets(dir.path(), Some(bad)).unwrap_err().to_string();
            assert!(problems.contains("SESSION_SECRET") && !problems.contains(bad), "{problems}");
        }
    }

    #[test]
    fn encryption_keys_are_32_bytes_in_either_base64_alphabet() {
        let bytes: Vec<u8> = (0..32).map(|b| 255 - b).collect();
        for text in [STANDARD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            assert_eq!(encryption_key(&text).unwrap().as_slice(), bytes);
        }
        assert!(encryption_key(&STANDARD.encode(&bytes[1..])).is_err());
        assert!(encryption_key("!").is_err());
        assert!(encryption_key("").is_err());
        assert!(encryption_key(&STANDARD.encode([0; 32])).is_err());
    }
}
