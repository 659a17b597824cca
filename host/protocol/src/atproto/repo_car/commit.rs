//! Parses the commit of a repo (atproto.com/specs/repository, Commit Objects).

use shrike::cbor::{Value, decode, encode_value};

use super::super::{Cid, Tid};
use super::InvalidCar;

/// The fields of a commit that a reader of the repo needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The repo's DID, as the commit claims it.
    pub did: String,
    pub rev: Tid,
    /// The root of the tree.
    pub data: Cid,
    /// `r || s` over `signed`.
    pub signature: Vec<u8>,
    /// The bytes that the signature covers: the commit without its signature.
    pub signed: Vec<u8>,
}

impl Commit {
    pub(super) fn parse(block: &[u8]) -> Result<Self, InvalidCar> {
        let Ok(Value::Map(mut fields)) = decode(block) else {
            return Err(InvalidCar::Commit("it is not a map in DAG-CBOR"));
        };
        let field = |name| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        // Version 2 differs by a link to the previous commit, which does not matter here.
        if !matches!(field("version"), Some(Value::Unsigned(2 | 3))) {
            return Err(InvalidCar::Commit("its version is neither 2 nor 3"));
        }
        let Some(Value::Text(did)) = field("did") else { return Err(InvalidCar::Commit("it has no did")) };
        let Some(Value::Text(rev)) = field("rev") else { return Err(InvalidCar::Commit("it has no rev")) };
        let Some(Value::Cid(data)) = field("data") else { return Err(InvalidCar::Commit("it has no data")) };
        let Some(Value::Bytes(sig)) = field("sig") else { return Err(InvalidCar::Commit("it has no sig")) };
        let rev = Tid::try_from(*rev).map_err(|_| InvalidCar::Commit("its rev is not a TID"))?;
        let (did, data, signature) = ((*did).to_owned(), *data, sig.to_vec());
        fields.retain(|(key, _)| *key != "sig");
        let signed = encode_value(&Value::Map(fields));
        let signed = signed.map_err(|_| InvalidCar::Commit("it is not in DAG-CBOR"))?;
        Ok(Self { did, rev, data, signature, signed })
    }
}
