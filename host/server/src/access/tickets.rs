//! Tickets: an account opens a WebSocket from a browser, which can't send credentials in headers. A ticket is in the URL
//! instead, is valid for a minute and once, and for one method.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use super::used_proofs::UseUnknown;
use super::{Access, ApiClient, ClientUser};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::crypto::sha256_hex;

/// The parameter of the URL. The method does not see it.
pub const TICKET_PARAM: &str = "ticket";

/// Time in which a ticket is used, in seconds: URLs are written to logs of proxies.
const LIFETIME: i64 = 60;

/// The purpose of the sealed text.
const PURPOSE: &str = "ticket";

/// The content of a ticket.
#[derive(Debug, Serialize, Deserialize)]
struct Ticket {
    id: String,
    did: String,
    /// Id of the API client that the account is logged in with.
    client: String,
    method: String,
    expires_at: i64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TicketError {
    #[error("the ticket is invalid, has expired, or was used before: request another one")]
    Invalid,
    #[error(transparent)]
    Unknown(#[from] UseUnknown),
}

impl Access {
    /// A ticket for a WebSocket of a method, with the time until which it is valid.
    pub fn issue_ticket(&self, user: &ClientUser, method: &Nsid) -> (String, Timestamp) {
        let expires_at = self.core.clock.now().plus_seconds(LIFETIME);
        let ticket = Ticket {
            id: self.core.random.hex(16),
            did: user.did.to_string(),
            client: user.client.id.clone(),
            method: method.to_string(),
            expires_at: expires_at.0,
        };
        // Strings and numbers always serialize.
        let text = serde_json::to_vec(&ticket).unwrap_or_default();
        (BASE64URL_NOPAD.encode(&self.core.sealing.seal(&self.core.random, PURPOSE, &text)), expires_at)
    }

    /// The account of a ticket, which is used up.
    pub(super) async fn redeem_ticket(
        &self,
        text: &str,
        client: &ApiClient,
        method: &str,
    ) -> Result<Did, TicketError> {
        let sealed = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TicketError::Invalid)?;
        let opened = self.core.sealing.open(PURPOSE, &sealed).map_err(|_| TicketError::Invalid)?;
        let ticket: Ticket = serde_json::from_slice(&opened).map_err(|_| TicketError::Invalid)?;
        let is_valid = ticket.client == client.id
            && ticket.method == method
            && ticket.expires_at > self.core.clock.now().0;
        let did = Did::try_from(ticket.did.as_str()).ok().filter(|_| is_valid);
        let did = did.ok_or(TicketError::Invalid)?;
        let purpose = sha256_hex(PURPOSE.as_bytes());
        if self.used.first_use(&purpose, &ticket.id, Timestamp(ticket.expires_at)).await? {
            Ok(did)
        } else {
            Err(TicketError::Invalid)
        }
    }
}
