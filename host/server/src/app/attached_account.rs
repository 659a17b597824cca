//! Changes the DID document of the account whose DID the instance uses. The account's PDS signs the change, after the
//! account's owner has confirmed it with a code that the PDS sends by email (admin-api.md §10).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, Topic};
use belvedere_instance::pds::{ForwardedCall, PdsError, Session, SessionSelector, StandardCall};
use belvedere_instance::repos::caller_session;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_storage::store::service_identity;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;
use belvedere_web::net::Limits;

#[derive(Deserialize)]
struct SignedOperation {
    operation: Value,
}

impl App {
    /// Asks the PDS of the attached account to send its owner a code.
    ///
    /// # Errors
    /// 400 in another mode, 401 without a session of the account; the PDS's own refusal.
    pub async fn request_plc_code(&self) -> Result<(), Error> {
        let (_, session) = self.attached_session().await?;
        self.call_attached(&session, "requestPlcOperationSignature", None).await.map(drop)
    }

    /// Puts our services and keys into the document of the attached account, with the code that its owner received.
    /// From then on the account's DID is the instance's.
    ///
    /// # Errors
    /// As [`Self::request_plc_code`]; 502 when the PLC directory does not answer.
    pub async fn submit_plc_code(&self, token: &str) -> Result<(), Error> {
        let (account, session) = self.attached_session().await?;
        let (identity, setup) = (&self.service_identity, &self.identity_setup);
        let (began, more) = (self.clock.now(), self.identity_additions().await?);
        if let Some(update) = setup.account_update(identity, &account, &more).await? {
            let body = json!({
                "token": token,
                "services": update["services"],
                "verificationMethods": update["verificationMethods"],
            });
            let signed = self.call_attached(&session, "signPlcOperation", Some(&body)).await?;
            let SignedOperation { operation } = serde_json::from_slice(&signed)
                .map_err(|_| Error::new(StatusCode::BAD_GATEWAY, "the account's PDS signed no operation"))?;
            let body = json!({ "operation": operation });
            self.call_attached(&session, "submitPlcOperation", Some(&body)).await?;
        }
        setup.account_updated(&account, began).await?;
        self.core.resolver.invalidate(&account).await;
        self.changed(Topic::ServiceIdentity).await
    }

    /// The attached account and its session.
    async fn attached_session(&self) -> Result<(Did, Arc<Session>), Error> {
        let account = self.service_identity.attached_account();
        let account = account.ok_or_else(|| Error::bad_request("the identity mode is not attach_account"))?;
        let row = service_identity::get(&self.db).await?;
        let session = match row.and_then(|row| row.attached_session_id) {
            Some(id) => self.repos.session(SessionSelector::Id(&id)).await?,
            None => None,
        };
        let session = session.ok_or_else(|| {
            let text = format!(
                "log in as {account} first: GET /auth/login with this handle and the scope atproto identity:*"
            );
            Error::unauthorized(text)
        })?;
        Ok((account, session))
    }

    /// Calls a procedure of `com.atproto.identity` at the account's PDS. Returns its answer.
    async fn call_attached(
        &self,
        session: &Session,
        method: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, Error> {
        let nsid = format!("com.atproto.identity.{method}");
        let nsid = Nsid::try_from(nsid.as_str()).map_err(Error::internal)?;
        let requested = StandardCall::read(&nsid, &[], None).map_err(Error::internal)?;
        let call = ForwardedCall {
            verb: Method::POST,
            path: nsid.as_str(),
            input: body.map(|body| Bytes::from(body.to_string())),
            requested: &requested,
            service: None,
            headers: HeaderMap::new(),
        };
        let agent = self.repos.agent(session, &Tenant::Instance);
        let response = agent.forward(call, Limits::DOCUMENT_BYTES).await;
        let response = match response {
            Ok(response) => response,
            Err(PdsError::Ended) => {
                return Err(Error::unauthorized(
                    "the session of the attached account has ended: log in again",
                ));
            }
            Err(error) => {
                let answer = caller_session::failed(error)?;
                return Err(refusal(answer.status, &answer.body));
            }
        };
        if !response.status.is_success() {
            return Err(refusal(response.status, &response.body));
        }
        Ok(response.body)
    }
}

/// The PDS's refusal with its own status and texts.
fn refusal(status: StatusCode, body: &[u8]) -> Error {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        error: String,
        message: String,
    }
    /// Characters of each text that are passed on.
    const MAX_TEXT: usize = 300;
    let Body { error, message } = serde_json::from_slice(body).unwrap_or_default();
    let cut = |text: String| text.chars().take(MAX_TEXT).collect::<String>();
    Error::new(status, format!("the account's PDS refused: {}", cut(error))).with_message(cut(message))
}
