//! The return types of handlers. They say the status and the body of an answer, for the client and for the description of
//! the API.

use std::marker::PhantomData;

use futures_util::future::Either;
use http::{HeaderName, HeaderValue, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use belvedere_web::http::{Error, Response, response};

/// A status, with the media type of the body and its schema; `None` without a body.
pub type Kind = (u16, Option<(&'static str, Schema)>);

/// A type that says which answers there may be, besides errors.
pub trait Described {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind>;
}

/// An answer that is not an error.
pub trait Answer: Described {
    fn respond(self) -> Response;
}

/// The future that a handler returns: of an answer or an error.
pub trait Outcome: Future<Output = Result<Self::Answer, Error>> + Send + 'static {
    type Answer: Answer + 'static;
}

impl<F, A: Answer + 'static> Outcome for F
where
    F: Future<Output = Result<A, Error>> + Send + 'static,
{
    type Answer = A;
}

/// A JSON body.
#[derive(Debug)]
pub struct Json<T, const STATUS: u16 = 200>(pub T);

/// An answer without a body.
#[derive(Debug)]
pub struct Empty<const STATUS: u16 = 204>;

/// The result of a handler that answers with JSON.
pub type JsonResult<T, const STATUS: u16 = 200> = Result<Json<T, STATUS>, Error>;

/// The result of a handler that answers without a body.
pub type EmptyResult<const STATUS: u16 = 204> = Result<Empty<STATUS>, Error>;

/// A response that the handler has built, for the sake of its headers or its body. It is described as an `A`.
#[derive(Debug)]
pub struct Built<A>(Response, PhantomData<fn() -> A>);

/// A redirect.
pub type Redirect = Empty<303>;

/// A page for people.
#[derive(Debug)]
pub enum Html {}

/// Server-sent events.
#[derive(Debug)]
pub enum Events {}

/// A file.
#[derive(Debug)]
pub enum Binary {}

/// A picture.
#[derive(Debug)]
pub enum Image {}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or_default()
}

impl<T: Serialize + JsonSchema, const STATUS: u16> Answer for Json<T, STATUS> {
    fn respond(self) -> Response {
        response::json(status(STATUS), &self.0)
    }
}

impl<const STATUS: u16> Answer for Empty<STATUS> {
    fn respond(self) -> Response {
        response::empty(status(STATUS))
    }
}

impl<A> Built<A> {
    /// The answer, for [`Self::with`].
    pub fn of(answer: A) -> Self
    where
        A: Answer,
    {
        answer.respond().into()
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }
}

impl<A: Described> Answer for Built<A> {
    fn respond(self) -> Response {
        self.0
    }
}

impl<A> From<Response> for Built<A> {
    fn from(response: Response) -> Self {
        Self(response, PhantomData)
    }
}

impl<A: Answer, B: Answer> Answer for Either<A, B> {
    fn respond(self) -> Response {
        match self {
            Self::Left(answer) => answer.respond(),
            Self::Right(answer) => answer.respond(),
        }
    }
}

/// For routes that are not described, and for an error that has more fields than [`Error`].
impl Answer for Response {
    fn respond(self) -> Response {
        self
    }
}

impl<T: JsonSchema, const STATUS: u16> Described for Json<T, STATUS> {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(STATUS, Some(("application/json", schemas.subschema_for::<T>())))]
    }
}

impl<const STATUS: u16> Described for Empty<STATUS> {
    fn kinds(_schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(STATUS, None)]
    }
}

impl<A: Described> Described for Built<A> {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        A::kinds(schemas)
    }
}

impl<A: Described, B: Described> Described for Either<A, B> {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        [A::kinds(schemas), B::kinds(schemas)].concat()
    }
}

impl Described for Response {
    fn kinds(_schemas: &mut SchemaGenerator) -> Vec<Kind> {
        Vec::new()
    }
}

impl Described for Html {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(200, Some(("text/html", schemas.subschema_for::<String>())))]
    }
}

impl Described for Events {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(200, Some(("text/event-stream", schemas.subschema_for::<String>())))]
    }
}

impl Described for Binary {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(200, Some(("application/octet-stream", schemas.subschema_for::<String>())))]
    }
}

impl Described for Image {
    fn kinds(schemas: &mut SchemaGenerator) -> Vec<Kind> {
        vec![(200, Some(("image/*", schemas.subschema_for::<String>())))]
    }
}
