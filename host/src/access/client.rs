//! The applications that may call XRPC.

use crate::store::{Db, StoreError};

/// What a request has to know of the API client that sent it.
#[derive(Debug)]
pub struct ApiClient {
    pub id: String,
    pub key: String,
}

/// All active API clients, in memory.
#[derive(Debug, Default)]
pub struct Clients {}

impl Clients {
    /// Takes over what the store has now. To be called after every change.
    ///
    /// # Errors
    /// When the store can't be read; the clients known before stay.
    pub async fn reload(&self, _db: &Db) -> Result<(), StoreError> {
        todo!()
    }
}
