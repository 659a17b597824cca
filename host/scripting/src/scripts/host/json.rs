//! Measures JSON that the guest passes to the host, before it is parsed: 16 MiB of `[],` would become a third of a
//! gigabyte.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::fault;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};

/// Memory of one value in a parsed tree, besides its text: itself, and its part of the list or map that it is in.
const VALUE_BYTES: usize = 64;

/// Checks that `json` is JSON of at most `max` bytes, and charges the run for the memory that its parsed tree takes.
/// `what` names it to the script's author. Depth is bounded by the parser, at 128.
pub(super) fn check(state: &mut RunState, what: &str, json: &[u8], max: usize) -> Result<(), Fault> {
    let bad = |message: String| fault::new(FaultCode::BadInput, format!("{what}: {message}"));
    if json.len() > max {
        return Err(bad(format!("larger than {max} bytes of JSON")));
    }
    let mut values = 0;
    let mut parser = serde_json::Deserializer::from_slice(json);
    let counted = Count(&mut values).deserialize(&mut parser).and_then(|()| parser.end());
    counted.map_err(|error| bad(error.to_string()))?;
    state.charge_json(json.len() + values * VALUE_BYTES)
}

/// Counts values without keeping any.
struct Count<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        *self.0 += 1;
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Count(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Count(self.0))?.is_some() {
            map.next_value_seed(Count(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_names_and_values() {
        for (json, expected) in
            [("1", 1), ("[]", 1), ("[[],[],\"[],[]\"]", 4), (r#"{"a":{"b":null},"c":1.5}"#, 7)]
        {
            let mut values = 0;
            Count(&mut values).deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap();
            assert_eq!(values, expected, "{json}");
        }
    }
}
