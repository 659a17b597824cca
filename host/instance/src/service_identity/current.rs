//! The identity in memory: which DID the instance has, and what service tokens for it may call.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::keys::{self, KeyUse};
use super::{AccessMode, Entry, Mode};
use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{PrivateKey, PublicKey, SealingKey};
use belvedere_protocol::spaces::r10::token;
use belvedere_storage::store::{Db, StoreError, service_entries, service_identity, verification_methods};

/// The service of an instance that was never set up: fragment and type, as PDSs and clients know them for AppViews
/// (docs/adr/0040). Setting up an identity of the instance's own stores it as an entry.
pub const BUILT_IN: (&str, &str) = ("#bsky_appview", "BskyAppView");

/// The service that hosts spaces: fragment and type. It is in the DID document while spaces are on, and its callers may call the
/// methods of spaces. An entry of the same fragment replaces it.
pub const SPACE_HOST: (&str, &str) = (token::HOST, "AtprotoSpaceHost");

/// The verification method whose key signs the labels of this instance.
pub const LABEL_KEY: &str = "#atproto_label";

/// The service at which others subscribe to the labels of this instance: fragment and type. It is in the DID document while the key
/// [`LABEL_KEY`] is, unless an entry has the same fragment.
pub const LABELER: (&str, &str) = ("#atproto_labeler", "AtprotoLabeler");

/// The namespaces of the methods of spaces.
const SPACE_METHODS: [&str; 2] = ["com.atproto.space.", "com.atproto.simplespace."];

/// The keys and services of the DID document that the identity does not have.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Fragment and key.
    pub keys: Vec<(String, PublicKey)>,
    /// Fragment and type.
    pub services: Vec<(&'static str, &'static str)>,
}

/// The instance as a labeler.
#[derive(Clone, Debug)]
pub struct Labeler {
    /// The source of its labels.
    pub did: Did,
    pub key: Arc<PrivateKey>,
}

/// The identity, reloaded when it changes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServiceIdentity {
    /// The DID of the configuration, which is the instance's until it is set up.
    configured: Did,
    current: Arc<Reloadable<Current>>,
}

/// The identity at one time.
pub(super) struct Current {
    /// `None` before the set-up.
    pub(super) mode: Option<Mode>,
    /// The DID of the set-up; `None` when the configured one counts.
    pub(super) did: Option<Did>,
    pub(super) attached_account: Option<Did>,
    pub(super) signing_key: Option<PrivateKey>,
    /// With the built-in one, where it counts.
    pub(super) entries: Vec<Entry>,
    /// The key of the method [`LABEL_KEY`]: then the instance is a labeler.
    pub(super) label_key: Option<Arc<PrivateKey>>,
    /// Further keys: fragment and key.
    pub(super) methods: Vec<(String, PublicKey)>,
}

impl ServiceIdentity {
    /// An identity as before the set-up, until it is reloaded.
    pub fn new(configured: Did) -> Self {
        let current = Current {
            mode: None,
            did: None,
            attached_account: None,
            signing_key: None,
            entries: vec![built_in()],
            label_key: None,
            methods: Vec::new(),
        };
        Self { configured, current: Arc::new(Reloadable::new(current)) }
    }

    /// Reads the identity.
    ///
    /// # Errors
    /// When the store can't be read, or a key can't be decrypted; then the previous identity stays.
    pub async fn reload(&self, db: &Db, sealing: &SealingKey) -> Result<(), StoreError> {
        self.current.reload(async |_| read(db, sealing).await).await
    }

    pub(super) fn load(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// The instance's DID: the audience of service tokens for it.
    pub fn did(&self) -> Did {
        self.current.load().did.clone().unwrap_or_else(|| self.configured.clone())
    }

    /// The mode in which the instance was set up; `None` before.
    pub fn mode(&self) -> Option<Mode> {
        self.current.load().mode
    }

    /// The account whose DID the instance uses or is about to use.
    pub fn attached_account(&self) -> Option<Did> {
        let current = self.current.load();
        current.attached_account.clone().filter(|_| current.mode == Some(Mode::AttachAccount))
    }

    /// The DID and the key of the labels that this instance issues; `None` while it has no public identity, or no such key.
    pub fn labeler(&self) -> Option<Labeler> {
        let current = self.current.load();
        if current.mode == Some(Mode::NotExposed) {
            return None;
        }
        Some(Labeler { did: self.did(), key: current.label_key.clone()? })
    }

    /// Whether `service`, a DID with a service's fragment, is a service of this instance.
    pub fn has_service(&self, did: &str, fragment: &str) -> bool {
        self.did().as_str() == did
            && self.current.load().entries.iter().any(|entry| entry.fragment == fragment)
    }

    /// The reason why a service token for `audience` does not permit a call of `method`; `None` when it does. Without a
    /// method the call is one of the admin API, for which a service that is limited to methods is not enough.
    ///
    /// An audience without a fragment names no service: it permits what any of the services permits. PDSs send such
    /// tokens for calls with `atproto-proxy`.
    pub fn refusal(&self, audience: &str, method: Option<&str>) -> Option<String> {
        let (did, fragment) = match audience.find('#') {
            Some(at) => (&audience[..at], Some(&audience[at..])),
            None => (audience, None),
        };
        if did != self.did().as_str() {
            return Some("the service token is meant for another audience".to_owned());
        }
        let current = self.current.load();
        if current.mode == Some(Mode::NotExposed) {
            return Some("this server has no public identity, so it accepts no service tokens".to_owned());
        }
        let permits = |entry: &Entry| match method {
            Some(method) => entry.permits(method),
            None => entry.access == AccessMode::All,
        };
        let target = method.unwrap_or("the admin API");
        match fragment {
            None if method.is_none() => None,
            None if current.entries.iter().any(permits) => None,
            None => Some(format!("no service of this server is authorized for '{target}'")),
            Some(fragment) => {
                let entry = current.entries.iter().find(|entry| entry.fragment == fragment);
                let permitted = match entry {
                    Some(entry) => permits(entry),
                    None => fragment == SPACE_HOST.0 && method.is_some_and(is_of_spaces),
                };
                let shown: String = fragment.chars().take(64).collect();
                (!permitted).then(|| format!("service '{shown}' is not authorized for '{target}'"))
            }
        }
    }
}

impl Current {
    /// The services in the DID document: fragment and type.
    pub(super) fn services<'a>(&'a self, more: &'a Additions) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.entries.iter().map(|entry| (&*entry.fragment, &*entry.service_type));
        let is_new = |(added, _): &(&str, &str)| self.entries.iter().all(|entry| entry.fragment != *added);
        let labeler = self.label_key.as_ref().map(|_| LABELER);
        entries.chain(more.services.iter().copied().chain(labeler).filter(is_new))
    }
}

fn is_of_spaces(method: &str) -> bool {
    SPACE_METHODS.iter().any(|namespace| method.starts_with(namespace))
}

fn built_in() -> Entry {
    let (fragment, service_type) = BUILT_IN;
    Entry {
        fragment: fragment.to_owned(),
        service_type: service_type.to_owned(),
        access: AccessMode::All,
        methods: HashSet::new(),
    }
}

async fn read(db: &Db, sealing: &SealingKey) -> Result<Current, StoreError> {
    let entries = entries(db).await?;
    let methods = verification_methods::list(db).await?.into_iter().filter(|row| row.deleted_at.is_none());
    let methods: Vec<_> = methods.collect();
    let label_key = methods.iter().find(|row| row.fragment_id == LABEL_KEY);
    let label_key = label_key.and_then(|row| row.sealed.as_deref());
    let label_key =
        label_key.map(|sealed| keys::open(sealing, KeyUse::Method, sealed).map(Arc::new)).transpose()?;
    let methods = methods.into_iter().map(|row| match PublicKey::from_multikey(&row.public_key_multibase) {
        Ok(key) => Ok((row.fragment_id, key)),
        Err(error) => Err(StoreError::Corrupt(format!("verification_methods {}: {error}", row.fragment_id))),
    });
    let methods = methods.collect::<Result<_, _>>()?;
    let Some(row) = service_identity::get(db).await? else {
        let mut entries = entries;
        if entries.iter().all(|entry| entry.fragment != BUILT_IN.0) {
            entries.insert(0, built_in());
        }
        return Ok(Current {
            mode: None,
            did: None,
            attached_account: None,
            signing_key: None,
            entries,
            label_key,
            methods,
        });
    };
    let corrupt = |column: &str| StoreError::Corrupt(format!("service_identity.{column}"));
    let did = |column: &str, text: Option<String>| {
        text.map(|text| Did::try_from(text.as_str()).map_err(|_| corrupt(column))).transpose()
    };
    let signing_key =
        row.signing_key.map(|sealed| keys::open(sealing, KeyUse::Signing, &sealed)).transpose()?;
    Ok(Current {
        mode: Some(Mode::parse(&row.mode).ok_or_else(|| corrupt("mode"))?),
        did: did("did", row.did)?,
        attached_account: did("attached_account_did", row.attached_account_did)?,
        signing_key,
        entries,
        label_key,
        methods,
    })
}

/// The stored entries with their methods.
async fn entries(db: &Db) -> Result<Vec<Entry>, StoreError> {
    let rows = service_entries::list(db).await?;
    let mut bound: HashMap<i64, HashSet<String>> = HashMap::new();
    for (id, nsid) in service_entries::all_xrpcs(db).await? {
        bound.entry(id).or_default().insert(nsid);
    }
    let entries = rows.into_iter().map(|row| Entry {
        methods: bound.remove(&row.id).unwrap_or_default(),
        access: AccessMode::from_stored(&row.access_mode),
        fragment: row.fragment_id,
        service_type: row.service_type,
    });
    Ok(entries.collect())
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").field("mode", &self.mode).field("did", &self.did).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DID: &str = "did:web:index.example";

    fn identity(mode: Option<Mode>, entries: Vec<Entry>) -> ServiceIdentity {
        let identity = ServiceIdentity::new(Did::try_from(DID).unwrap());
        let (did, attached_account, signing_key, methods) = (None, None, None, Vec::new());
        identity.current.store(Current {
            mode,
            did,
            attached_account,
            signing_key,
            entries,
            label_key: None,
            methods,
        });
        identity
    }

    fn entry(fragment: &str, access: AccessMode) -> Entry {
        let methods = HashSet::from(["com.example.bound".to_owned()]);
        Entry { fragment: fragment.to_owned(), access, methods, ..built_in() }
    }

    #[test]
    fn tokens_are_valid_for_what_their_service_permits() {
        let entries = vec![
            entry("#all", AccessMode::All),
            entry("#some", AccessMode::Allowlist),
            entry("#off", AccessMode::Disabled),
        ];
        let exposed = identity(Some(Mode::DidWeb), entries.clone());
        let (bound, other) = (Some("com.example.bound"), Some("com.example.other"));
        for (fragment, method, permitted) in [
            ("", bound, true),
            ("", other, true),
            ("", None, true),
            ("#all", other, true),
            ("#all", None, true),
            ("#some", bound, true),
            ("#some", other, false),
            ("#some", None, false),
            ("#off", bound, false),
            ("#off", None, false),
            ("#none", bound, false),
            ("#", bound, false),
            ("#all#all", bound, false),
        ] {
            let refusal = exposed.refusal(&format!("{DID}{fragment}"), method);
            assert_eq!(refusal.is_none(), permitted, "{fragment} {method:?} {refusal:?}");
            assert!(exposed.refusal(&format!("did:web:other.example{fragment}"), method).is_some());
        }
        assert_eq!(
            exposed.refusal("did:web:index.example#some", other).unwrap(),
            "service '#some' is not authorized for 'com.example.other'"
        );
        let hidden = identity(Some(Mode::NotExposed), entries.clone());
        assert!(hidden.refusal(DID, bound).is_some() && hidden.refusal(DID, None).is_some());
        // Without a fragment any service will do, but there has to be one.
        let narrow = identity(Some(Mode::DidWeb), entries[1..].to_vec());
        assert!(narrow.refusal(DID, bound).is_none() && narrow.refusal(DID, other).is_some());
        assert!(identity(Some(Mode::DidWeb), Vec::new()).refusal(DID, bound).is_some());
    }

    #[test]
    fn an_entry_replaces_the_space_host() {
        let of_spaces = Some("com.atproto.space.notifyWrite");
        let audience = format!("{DID}{}", SPACE_HOST.0);
        let off = vec![entry(SPACE_HOST.0, AccessMode::Disabled)];
        let identity = identity(Some(Mode::DidWeb), off);
        assert!(identity.refusal(&audience, of_spaces).is_some());
        let more = Additions { services: vec![SPACE_HOST], ..Additions::default() };
        assert_eq!(identity.load().services(&more).count(), 1);
    }

    #[test]
    fn before_the_set_up_there_is_one_service() {
        let identity = ServiceIdentity::new(Did::try_from(DID).unwrap());
        assert!(identity.has_service(DID, "#bsky_appview") && !identity.has_service(DID, "#other"));
        assert!(!identity.has_service("did:web:other.example", "#bsky_appview"));
        assert!(identity.refusal("did:web:index.example#bsky_appview", Some("a.b.c")).is_none());
        for (method, permitted) in [
            (Some("com.atproto.space.notifyWrite"), true),
            (Some("com.atproto.spaces.other"), false),
            (Some("a.b.c"), false),
            (None, false),
        ] {
            let refusal = identity.refusal("did:web:index.example#atproto_space_host", method);
            assert_eq!(refusal.is_none(), permitted, "{method:?}");
        }
        assert!(identity.refusal("did:web:index.example#other", Some("a.b.c")).is_some());
    }
}
