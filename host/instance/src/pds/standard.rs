//! The requirements of standard methods (`com.atproto.*`) on a PDS: the permissions that they need, and the writes that
//! they make.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{self, CommitResult, PdsError};
use super::{MAX_WRITES, Write, WriteAction};
use belvedere_protocol::atproto::scope::{AccountAttribute, IdentityAttribute};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, WrongRecordType, set_record_type};

/// The namespace of the methods that every PDS has.
const NAMESPACE: &str = "com.atproto.";

/// The reason why the body or the parameters of a call are invalid. The text is for the caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCall {
    #[error("{0}")]
    Malformed(String),
    #[error("invalid record: {0}")]
    RecordType(#[from] WrongRecordType),
}

/// The request to the caller's PDS that a call makes.
#[derive(Debug)]
pub enum StandardCall {
    /// Reads what is public, or what every session may read.
    Read,
    /// `getSession`: the account, with its email address if the scopes allow that.
    Session,
    Write(RepoWrites),
    /// `getServiceAuth`: a token for a method of another server, or for all its methods.
    ServiceToken {
        audience: String,
        method: Option<String>,
    },
    /// Changes an attribute of the account.
    Account(AccountAttribute),
    /// Changes the account's identity.
    Identity(IdentityAttribute),
    /// A method that the PDS passes on to another server.
    Remote(Nsid),
    /// A standard method that no scope covers: only sessions without recorded scopes may call it.
    Unscoped,
}

/// The writes of one call to a repo.
#[derive(Debug)]
pub struct RepoWrites {
    /// The repo that the body names: a DID or a handle.
    pub repo: String,
    pub writes: Vec<Write>,
    /// Whether the records must match their lexicon: unless the body has `validate: false`.
    pub validate: bool,
    pub(super) is_batch: bool,
}

impl RepoWrites {
    /// Whether the body names another repo than that of `did`. A handle is left to the PDS, which knows whose it is and
    /// accepts the session's own only.
    pub fn is_foreign(&self, did: &Did) -> bool {
        self.repo.starts_with("did:") && self.repo != did.as_str()
    }

    /// The commit that a successful response reports.
    ///
    /// # Errors
    /// When the response is invalid; the writes may or may not have been made.
    pub fn committed(&self, response: &[u8]) -> Result<CommitResult, PdsError> {
        match self.writes.as_slice() {
            [Write { action: WriteAction::Delete, .. }] if !self.is_batch => answer::deleted(response),
            _ if !self.is_batch => answer::written(response),
            writes => answer::applied(response, writes.len()),
        }
    }
}

impl StandardCall {
    /// Whether a method belongs to the protocol itself, so that every PDS has it.
    pub fn is_standard(method: &Nsid) -> bool {
        method.as_str().starts_with(NAMESPACE)
    }

    /// Reads a call. `params` are names and values in order, `input` is the body.
    ///
    /// # Errors
    /// When the call lacks what its permissions depend on; the PDS would refuse it too.
    pub fn read(
        method: &Nsid,
        params: &[(String, String)],
        input: Option<&[u8]>,
    ) -> Result<Self, InvalidCall> {
        let Some(name) = method.as_str().strip_prefix(NAMESPACE) else {
            return Ok(Self::Remote(method.clone()));
        };
        let single = |action| Ok(Self::Write(single(action, input.unwrap_or_default())?));
        Ok(match name {
            "repo.createRecord" => return single(Single::Create),
            "repo.putRecord" => return single(Single::Put),
            "repo.deleteRecord" => return single(Single::Delete),
            "repo.applyWrites" => Self::Write(batch(input.unwrap_or_default())?),
            "repo.importRepo" => Self::Account(AccountAttribute::Repo),
            "server.getServiceAuth" => {
                let audience = single_param(params, "aud")?;
                let audience = audience
                    .ok_or_else(|| InvalidCall::Malformed("the parameter aud is missing".to_owned()))?;
                Self::ServiceToken { audience, method: single_param(params, "lxm")? }
            }
            "server.confirmEmail" | "server.requestEmailConfirmation" | "server.requestEmailUpdate" => {
                Self::Account(AccountAttribute::Email)
            }
            "identity.updateHandle" => Self::Identity(IdentityAttribute::Handle),
            "identity.requestPlcOperationSignature"
            | "identity.signPlcOperation"
            | "identity.submitPlcOperation" => Self::Identity(IdentityAttribute::Any),
            "moderation.createReport" => Self::Remote(method.clone()),
            "repo.describeRepo"
            | "repo.getRecord"
            | "repo.listRecords"
            | "repo.listMissingBlobs"
            | "identity.getRecommendedDidCredentials"
            | "identity.resolveDid"
            | "identity.resolveHandle"
            | "identity.resolveIdentity"
            | "label.queryLabels"
            | "lexicon.resolveLexicon"
            | "server.checkAccountStatus"
            | "server.describeServer" => Self::Read,
            "server.getSession" => Self::Session,
            name if name.starts_with("sync.") => Self::Read,
            _ => Self::Unscoped,
        })
    }
}

/// The methods that make one write.
#[derive(Clone, Copy)]
enum Single {
    Create,
    Put,
    Delete,
}

/// The fields of `createRecord`, `putRecord` and `deleteRecord`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SingleInput {
    repo: String,
    collection: String,
    rkey: Option<String>,
    record: Option<Box<RawValue>>,
    swap_record: Option<String>,
    validate: Option<bool>,
}

/// The fields of `applyWrites`.
#[derive(Deserialize)]
struct BatchInput {
    repo: String,
    writes: Vec<BatchWrite>,
    validate: Option<bool>,
}

#[derive(Deserialize)]
struct BatchWrite {
    #[serde(rename = "$type")]
    kind: String,
    collection: String,
    rkey: Option<String>,
    value: Option<Box<RawValue>>,
}

/// The value of a parameter that may not repeat: the scopes are checked for one value, and the PDS may take another.
fn single_param(params: &[(String, String)], name: &str) -> Result<Option<String>, InvalidCall> {
    let mut values = params.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone());
    let first = values.next();
    if values.next().is_some() {
        return Err(InvalidCall::Malformed(format!("the parameter {name} is repeated")));
    }
    Ok(first)
}

fn invalid(error: impl std::fmt::Display) -> InvalidCall {
    InvalidCall::Malformed(format!("invalid request body: {error}"))
}

fn single(method: Single, input: &[u8]) -> Result<RepoWrites, InvalidCall> {
    let SingleInput { repo, collection, rkey, record, swap_record, validate } =
        serde_json::from_slice(input).map_err(invalid)?;
    let write = match method {
        Single::Create => {
            write(&collection, rkey, WriteAction::Create(value("record", &collection, record)?))?
        }
        Single::Put => {
            required_key(rkey.as_ref())?;
            write(&collection, rkey, WriteAction::Put(value("record", &collection, record)?))?
        }
        Single::Delete => {
            required_key(rkey.as_ref())?;
            write(&collection, rkey, WriteAction::Delete)?
        }
    };
    let validate = validate.unwrap_or(true);
    Ok(RepoWrites { repo, writes: vec![Write { swap: swap_record, ..write }], validate, is_batch: false })
}

fn batch(input: &[u8]) -> Result<RepoWrites, InvalidCall> {
    let BatchInput { repo, writes, validate } = serde_json::from_slice(input).map_err(invalid)?;
    if writes.len() > MAX_WRITES {
        return Err(InvalidCall::Malformed(format!("at most {MAX_WRITES} writes in one commit")));
    }
    let writes = writes.into_iter().map(|BatchWrite { kind, collection, rkey, value: record }| {
        match kind.strip_prefix("com.atproto.repo.applyWrites#") {
            Some("create") => {
                write(&collection, rkey, WriteAction::Create(value("value", &collection, record)?))
            }
            Some("update") => {
                required_key(rkey.as_ref())?;
                write(&collection, rkey, WriteAction::Put(value("value", &collection, record)?))
            }
            Some("delete") => {
                required_key(rkey.as_ref())?;
                write(&collection, rkey, WriteAction::Delete)
            }
            _ => Err(invalid(
                "the $type of a write is #create, #update or #delete of com.atproto.repo.applyWrites",
            )),
        }
    });
    let validate = validate.unwrap_or(true);
    Ok(RepoWrites { repo, writes: writes.collect::<Result<_, _>>()?, validate, is_batch: true })
}

fn write(collection: &str, rkey: Option<String>, action: WriteAction) -> Result<Write, InvalidCall> {
    let collection = Nsid::try_from(collection).map_err(|_| invalid("collection is not an NSID"))?;
    let rkey = rkey.map(|text| RecordKey::try_from(text.as_str())).transpose();
    let rkey = rkey.map_err(|_| invalid("rkey is not a record key"))?;
    Ok(Write { collection, rkey, action, swap: None })
}

fn required_key(rkey: Option<&String>) -> Result<(), InvalidCall> {
    rkey.map(|_| ()).ok_or_else(|| invalid("rkey is missing"))
}

/// The text of a record, with `$type`: a PDS adds that where it is missing. Anything else than an object is left to the
/// validation.
fn value(field: &str, collection: &str, value: Option<Box<RawValue>>) -> Result<Bytes, InvalidCall> {
    let value = value.ok_or_else(|| invalid(format_args!("{field} is missing")))?;
    let text = value.get();
    let unchanged = || Ok(Bytes::copy_from_slice(text.as_bytes()));
    let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(text) else { return unchanged() };
    let (is_empty, has_type) = (fields.is_empty(), fields.contains_key("$type"));
    set_record_type(&mut fields, collection)?;
    let Some(rest) = text.strip_prefix('{').filter(|_| !has_type) else { return unchanged() };
    let comma = if is_empty { "" } else { "," };
    Ok(format!("{{\"$type\":{}{comma}{rest}", json!(collection)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, input: &Value) -> Result<StandardCall, InvalidCall> {
        let method = Nsid::try_from(method).unwrap();
        StandardCall::read(&method, &[], Some(input.to_string().as_bytes()))
    }

    fn writes(method: &str, input: &Value) -> RepoWrites {
        match read(method, input) {
            Ok(StandardCall::Write(writes)) => writes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn writes_are_read_with_the_record_that_the_pds_stores() {
        let input = json!({ "repo": "did:plc:a", "collection": "com.example.note", "record": { "n": 1 } });
        let created = writes("com.atproto.repo.createRecord", &input);
        let [Write { rkey: None, action: WriteAction::Create(record), swap: None, .. }] = &created.writes[..]
        else {
            panic!("{created:?}");
        };
        assert_eq!(&record[..], br#"{"$type":"com.example.note","n":1}"#);
        let put = json!({ "repo": "alice.test", "collection": "com.example.note", "rkey": "self", "record": {},
            "swapRecord": "bafy" });
        let put = writes("com.atproto.repo.putRecord", &put);
        assert_eq!(put.writes[0].swap.as_deref(), Some("bafy"));
        let many = json!({ "repo": "did:plc:a", "writes": [
            { "$type": "com.atproto.repo.applyWrites#create", "collection": "com.example.note", "value": {} },
            { "$type": "com.atproto.repo.applyWrites#delete", "collection": "com.example.note", "rkey": "b" },
        ] });
        assert_eq!(writes("com.atproto.repo.applyWrites", &many).writes.len(), 2);
    }

    #[test]
    fn a_record_of_another_type_is_refused() {
        let record = json!({ "$type": "com.example.other" });
        let one = json!({ "repo": "did:plc:a", "collection": "com.example.note", "rkey": "k", "record": record,
            "validate": false });
        let many = json!({ "repo": "did:plc:a", "writes": [{ "$type": "com.atproto.repo.applyWrites#update",
            "collection": "com.example.note", "rkey": "k", "value": record }] });
        for (method, input) in [("createRecord", &one), ("putRecord", &one), ("applyWrites", &many)] {
            let error = read(&format!("com.atproto.repo.{method}"), input).unwrap_err().to_string();
            assert_eq!(error, "invalid record: $type must be com.example.note, or be left out", "{method}");
        }
    }

    #[test]
    fn only_a_did_of_another_account_is_foreign() {
        let did = Did::try_from("did:plc:a").unwrap();
        for (repo, foreign) in
            [("did:plc:a", false), ("alice.test", false), ("did:plc:b", true), ("did:", true)]
        {
            let input = json!({ "repo": repo, "collection": "com.example.note", "rkey": "k" });
            let deleted = writes("com.atproto.repo.deleteRecord", &input);
            assert_eq!(deleted.is_foreign(&did), foreign, "{repo}");
        }
    }

    #[test]
    fn what_permissions_depend_on_must_be_there() {
        let repo = "did:plc:a";
        for (method, input, why) in [
            ("createRecord", json!([]), "invalid length"),
            ("createRecord", json!({ "collection": "a.b.c", "record": {} }), "repo"),
            ("createRecord", json!({ "repo": repo, "collection": "x", "record": {} }), "NSID"),
            ("createRecord", json!({ "repo": repo, "collection": "a.b.c" }), "record is missing"),
            ("putRecord", json!({ "repo": repo, "collection": "a.b.c", "record": {} }), "rkey"),
            ("putRecord", json!({ "repo": repo, "collection": "a.b.c", "rkey": "..", "record": {} }), "rkey"),
            ("deleteRecord", json!({ "repo": repo, "collection": "a.b.c" }), "rkey"),
            (
                "applyWrites",
                json!({ "repo": repo, "writes": [{ "$type": "#create", "collection": "a.b.c" }] }),
                "$type",
            ),
        ] {
            let error = read(&format!("com.atproto.repo.{method}"), &input).unwrap_err().to_string();
            assert!(error.contains(why), "{method} {input}: {error}");
        }
        let method = Nsid::try_from("com.atproto.server.getServiceAuth").unwrap();
        let param = |name: &str| (name.to_owned(), "did:web:x.example#y".to_owned());
        for params in [&[][..], &[param("aud"), param("aud")], &[param("aud"), param("lxm"), param("lxm")]] {
            assert!(StandardCall::read(&method, params, None).is_err(), "{params:?}");
        }
        assert!(StandardCall::read(&method, &[param("aud")], None).is_ok());
    }

    #[test]
    fn methods_without_a_scope_are_known_as_such() {
        assert!(matches!(read("com.atproto.server.deleteAccount", &json!({})), Ok(StandardCall::Unscoped)));
        assert!(matches!(read("com.atproto.repo.getRecord", &json!({})), Ok(StandardCall::Read)));
        assert!(matches!(read("app.bsky.feed.getTimeline", &json!({})), Ok(StandardCall::Remote(_))));
    }
}
