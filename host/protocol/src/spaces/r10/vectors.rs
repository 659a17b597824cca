//! Values that the reference implementation produced. The file says from where they come.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The time at which the tokens are valid, in seconds since the epoch.
pub(in crate::spaces) const NOW_SECONDS: i64 = 1_790_000_000;

pub(in crate::spaces) fn get(name: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("vectors.json")).unwrap();
    all[name].clone()
}

pub(in crate::spaces) fn list(name: &str) -> Vec<Value> {
    read(&get(name))
}

pub(in crate::spaces) fn read<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// The bytes of a text in hex.
pub(in crate::spaces) fn bytes<const N: usize>(value: &Value) -> [u8; N] {
    hex::decode(read::<String>(value)).unwrap().try_into().unwrap()
}
