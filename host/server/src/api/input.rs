//! The arguments of handlers: a request, with the types of its query and its body.

use std::marker::PhantomData;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use belvedere_web::http::{Error, Request};

/// A request as a handler takes it. A plain [`Request`] is one whose query and body are not read.
pub trait Input: From<Request> + Send + 'static {
    /// The object whose fields are the parameters of the query.
    fn query(_schemas: &mut SchemaGenerator) -> Option<Schema> {
        None
    }

    /// The media type of the body, and its schema.
    fn body(_schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        None
    }
}

impl Input for Request {}

/// A request with the parameters `Q`: a struct whose fields are texts, because each parameter has a message of its own for
/// a text that it can't take.
#[derive(Debug)]
pub struct WithQuery<Q>(Request, PhantomData<fn() -> Q>);

impl<Q: DeserializeOwned> WithQuery<Q> {
    /// The parameters. Unknown ones are ignored; of one that is repeated, the first value counts.
    ///
    /// # Errors
    /// 400 for a parameter that is missing though it is not an `Option`.
    pub fn parameters(&self) -> Result<Q, Error> {
        let mut fields = Map::new();
        for (name, value) in self.0.query_pairs() {
            fields.entry(name).or_insert_with(|| value.into());
        }
        serde_json::from_value(Value::Object(fields)).map_err(|error| Error::bad_request(error.to_string()))
    }
}

/// A request with the JSON body `B`.
#[derive(Debug)]
pub struct WithBody<B>(Request, PhantomData<fn() -> B>);

impl<B: DeserializeOwned> WithBody<B> {
    /// The body. Unknown fields are ignored.
    ///
    /// # Errors
    /// 400 with the reason and its position when it is not JSON of this type.
    pub fn json(&self) -> Result<B, Error> {
        self.0.json()
    }

    /// Like [`Self::json`]; without a body, the default.
    ///
    /// # Errors
    /// As [`Self::json`].
    pub fn json_or_default(&self) -> Result<B, Error>
    where
        B: Default,
    {
        if self.0.body.is_empty() { Ok(B::default()) } else { self.json() }
    }
}

impl<Q> From<Request> for WithQuery<Q> {
    fn from(request: Request) -> Self {
        Self(request, PhantomData)
    }
}

impl<B> From<Request> for WithBody<B> {
    fn from(request: Request) -> Self {
        Self(request, PhantomData)
    }
}

impl<Q> Deref for WithQuery<Q> {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.0
    }
}

impl<B> Deref for WithBody<B> {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.0
    }
}

impl<Q: JsonSchema + 'static> Input for WithQuery<Q> {
    fn query(schemas: &mut SchemaGenerator) -> Option<Schema> {
        Some(Q::json_schema(schemas))
    }
}

impl<B: JsonSchema + 'static> Input for WithBody<B> {
    fn body(schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        Some(("application/json", schemas.subschema_for::<B>()))
    }
}
