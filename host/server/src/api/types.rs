//! The types of an endpoint, for the description of the API.

use schemars::{Schema, SchemaGenerator};

use super::answer::{Answer, Kind};
use super::input::Input;

/// The types that a handler takes and returns, as the functions that make their schemas.
#[derive(Debug)]
pub struct Types {
    pub query: fn(&mut SchemaGenerator) -> Option<Schema>,
    pub body: fn(&mut SchemaGenerator) -> Option<(&'static str, Schema)>,
    pub answers: fn(&mut SchemaGenerator) -> Vec<Kind>,
}

impl Types {
    pub fn of<I: Input, A: Answer>() -> Self {
        Self { query: I::query, body: I::body, answers: A::kinds }
    }
}
