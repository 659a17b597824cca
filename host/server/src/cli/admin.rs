//! `belvedere admin`: manages users and admin API keys without a browser. It does not authenticate, because who can run
//! it has access to the database.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;

use super::{existing, print_error, print_line};
use crate::access::{AdminKey, Permission, PermissionSet, Template};
use crate::app::{net_client, resolver};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::config::Config;
use belvedere_instance::events::{Event, EventLog};
use belvedere_instance::settings::{SPACES_ENABLED, Settings};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::Db;
use belvedere_storage::store::api_keys::{self, NewApiKey};
use belvedere_storage::store::users::{self, UserRow};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a new admin API key for a DID; creates the user if there is none, and the first user of all as super user
    CreateKey {
        /// The user's DID, as did:plc:… or did:web:…
        #[arg(long)]
        did: String,
        /// The key's name in lists
        #[arg(long, default_value = "command line")]
        name: String,
        /// A template (viewer, operator, manager, full_access) or a comma-separated list of permissions [default: those
        /// of the user; full_access for a new user]
        #[arg(long, value_name = "TEMPLATE or LIST")]
        permissions: Option<String>,
        /// Do not look the DID up before it becomes a user, for a machine without access to the network
        #[arg(long)]
        unchecked: bool,
    },
}

pub(super) async fn run(command: Command, config: &Config) -> anyhow::Result<ExitCode> {
    let Command::CreateKey { did, name, permissions, unchecked } = command;
    let did = Did::parse_account(&did)?;
    if name.trim().is_empty() {
        bail!("--name must not be blank");
    }
    let db = existing::open(config).await?;
    let settings = Settings::new(config);
    settings.reload(&db, |_| ()).await?;
    let parse = |text: &str| parse_permissions(text, settings.flag(SPACES_ENABLED));
    let wanted = permissions.as_deref().map(parse).transpose()?;
    let random = Random::system();
    let clock = Clock::system();
    if !unchecked && users::get_by_did(&db, did.as_str()).await?.is_none() {
        check_existence(config, &did, &clock).await?;
    }
    let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
    let key = create_key(&db, &events, &random, clock.now(), &did, &name, wanted).await;
    events.flush().await;
    db.close().await;
    let key = key?;
    // Only the key goes to standard output, so that a shell script can capture it.
    print_error(&"this key is shown only once:");
    print_line(&key.reveal());
    Ok(ExitCode::SUCCESS)
}

/// Refuses a DID that does not exist: a mistyped one must not become a user.
async fn check_existence(config: &Config, did: &Did, clock: &Clock) -> anyhow::Result<()> {
    let identity = config.server.identity(config.server.port);
    let net = net_client(config, &identity, config.server.port)?;
    match resolver(config, net, clock.clone()).resolve_patiently(did).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_temporary() => bail!(
            "{did} could not be checked: {error}. Try again when PLC_URL and the DID's host can be reached, or add \
             --unchecked if you are sure of the DID"
        ),
        Err(error) => bail!("{did} can't become a user: {error}. Check it for a typo"),
    }
}

fn parse_permissions(text: &str, has_spaces: bool) -> anyhow::Result<PermissionSet> {
    if let Some(template) = Template::parse(text.trim()) {
        return Ok(template.permissions(has_spaces).into_iter().collect());
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            Permission::parse(name).with_context(|| {
                format!("{name} is neither a permission (lexicons:read) nor a template (viewer, operator, …)")
            })
        })
        .collect()
}

/// Creates an admin API key of a user, who is created too if there is none.
///
/// # Errors
/// When the user lacks a permission of it, or the database fails.
pub(super) async fn create_key(
    db: &Db,
    events: &EventLog,
    random: &Random,
    now: Timestamp,
    did: &Did,
    name: &str,
    wanted: Option<PermissionSet>,
) -> anyhow::Result<AdminKey> {
    let user = find_or_create_user(db, events, random, now, did, wanted).await?;
    let available =
        if user.is_super { PermissionSet::all() } else { PermissionSet::from_names(&user.permissions) };
    let granted = wanted.unwrap_or(available);
    let lacking: Vec<&str> =
        granted.iter().filter(|p| !available.contains(*p)).map(Permission::as_str).collect();
    if !lacking.is_empty() {
        bail!("the user {did} lacks {}; a key can't have more permissions than its user", lacking.join(", "));
    }
    let key = AdminKey::generate(random);
    let names: Vec<&str> = granted.iter().map(Permission::as_str).collect();
    let row = NewApiKey {
        id: &random.uuid(),
        user_id: &user.id,
        name,
        key_prefix: key.prefix(),
        key_hash: &key.hash(),
        permissions: &names,
    };
    api_keys::create(db, &row, now).await?;
    events.record(Event::ApiKeyCreated {
        actor: user.did,
        name: name.to_owned(),
        key_prefix: key.prefix().to_owned(),
        permissions: names.iter().map(|name| (*name).to_owned()).collect(),
    });
    Ok(key)
}

/// Returns the user with this DID, and creates it if there is none; the first user of all becomes the super user.
async fn find_or_create_user(
    db: &Db,
    events: &EventLog,
    random: &Random,
    now: Timestamp,
    did: &Did,
    wanted: Option<PermissionSet>,
) -> anyhow::Result<UserRow> {
    if let Some(user) = users::get_by_did(db, did.as_str()).await? {
        return Ok(user);
    }
    let all: Vec<&str> = Permission::ALL.iter().map(|p| p.as_str()).collect();
    if users::bootstrap(db, &random.uuid(), did.as_str(), &all, now).await? {
        print_error(&format_args!("created {did} as the first user and super user"));
        events.record(Event::UserBootstrapped { did: did.to_string() });
        return users::get_by_did(db, did.as_str()).await?.context("the user was deleted meanwhile");
    }
    let names: Vec<&str> = wanted.unwrap_or_else(PermissionSet::all).iter().map(Permission::as_str).collect();
    let user = users::create(db, &random.uuid(), did.as_str(), &names, now).await?;
    print_error(&format_args!("created the user {did}"));
    events.record(Event::UserCreated {
        actor: None,
        did: did.to_string(),
        template: None,
        permissions: user.permissions.clone(),
    });
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_storage::store::events::EventFilter;

    async fn db() -> (Db, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", dir.path().display()), 2).await.unwrap();
        db.migrate().await.unwrap();
        (db, dir)
    }

    #[test]
    fn permissions_are_a_template_or_a_list() {
        assert_eq!(parse_permissions("viewer", false).unwrap(), Template::Viewer.set());
        assert_eq!(parse_permissions("stats:read, events:read", false).unwrap().iter().count(), 2);
        assert!(parse_permissions("stats:read,nothing", false).unwrap_err().to_string().contains("nothing"));
    }

    #[tokio::test]
    async fn the_first_did_becomes_super_user_and_the_next_gets_the_given_permissions() {
        let ((db, _dir), random, now) = (db().await, Random::seeded(1), Timestamp(1));
        let (events, _) = EventLog::start(db.clone(), Clock::fixed(now), random.clone());
        let first = Did::try_from("did:plc:first").unwrap();
        let key = create_key(&db, &events, &random, now, &first, "a", None).await.unwrap();
        let (row, user) = api_keys::find_by_hash(&db, &key.hash()).await.unwrap().unwrap();
        assert!(user.is_super);
        assert_eq!(row.permissions.len(), Permission::ALL.len());

        let second = Did::try_from("did:plc:second").unwrap();
        let viewer = Some(Template::Viewer.set());
        create_key(&db, &events, &random, now, &second, "b", viewer).await.unwrap();
        let user = users::get_by_did(&db, "did:plc:second").await.unwrap().unwrap();
        assert!(!user.is_super && user.permissions.len() == 10);
        let more = Some(PermissionSet::all());
        let error = create_key(&db, &events, &random, now, &second, "c", more).await.unwrap_err();
        assert!(error.to_string().contains("users:create"), "{error}");

        events.flush().await;
        let rows = belvedere_storage::store::events::list(&db, &EventFilter::default(), 10).await.unwrap();
        let mut types: Vec<&str> = rows.iter().map(|row| row.event_type.as_str()).collect();
        types.sort_unstable();
        assert_eq!(types, ["api_key.created", "api_key.created", "user.bootstrapped", "user.created"]);
    }
}
