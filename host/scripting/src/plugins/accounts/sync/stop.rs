//! The reasons why a turn of a sync does not complete its page, and their effects on the sync.

use http::StatusCode;

use super::super::super::calls::{CallError, FaultCode};
use super::super::{AccountError, Linker, check};
use belvedere_instance::pds::PdsError;
use belvedere_storage::store::StoreError;

/// The pause after a PDS or a service that limits our rate does not say for how long, in seconds.
const LIMITED_SECONDS: i64 = 30;

/// The pause before another look whether the plugin is active, in seconds: an operator resumes it.
const PAUSED_SECONDS: i64 = 60;

/// The reason why a turn did not complete its page.
#[derive(Debug)]
pub(in crate::plugins::accounts) enum Stop {
    /// The page is read again after some time.
    Retry {
        code: &'static str,
        text: String,
        /// The time is known, in seconds: another attempt, which does not count, is no use before.
        after: Option<i64>,
    },
    /// The sync ends. With `keeps`, the next one goes on at the checkpoint.
    Fail { code: &'static str, text: String, keeps: bool },
}

impl Stop {
    pub(super) fn retry(code: &'static str, text: impl ToString) -> Self {
        Self::Retry { code, text: text.to_string(), after: None }
    }

    pub(super) fn map_text(self, map: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Retry { code, text, after } => Self::Retry { code, text: map(text), after },
            Self::Fail { code, text, keeps } => Self::Fail { code, text: map(text), keeps },
        }
    }

    /// For what the user or the operator can repair.
    pub(super) fn pause(code: &'static str, text: impl ToString) -> Self {
        Self::Fail { code, text: text.to_string(), keeps: true }
    }

    /// For a plugin that its operator can resume. The sync waits for that.
    pub(super) fn paused() -> Self {
        let text = "the plugin is paused: its operator can resume it".to_owned();
        Self::Retry { code: "internal", text, after: Some(PAUSED_SECONDS) }
    }

    /// For an error of the plugin that would come again at the checkpoint.
    pub(super) fn fail(code: &'static str, text: impl ToString) -> Self {
        Self::Fail { code, text: text.to_string(), keeps: false }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a page of a sync could not be written");
        Self::retry("internal", "the database failed")
    }
}

/// The effect of a failed write on the sync. A record that the PDS finds invalid is skipped, for the returned reason:
/// the PDS may repeat what the plugin wrote.
pub(super) fn pds_stop(plugin: &dyn Linker, error: PdsError) -> Result<String, Stop> {
    let text = check::shown_by(plugin, &error.whole_text());
    let refusal = match error {
        PdsError::Refused(refusal) => refusal,
        PdsError::Ended | PdsError::Moved => return Err(no_session()),
        PdsError::Store(error) => return Err(error.into()),
        PdsError::Credential => return Err(Stop::pause("internal", text)),
        PdsError::Net(_)
        | PdsError::Busy(_)
        | PdsError::Malformed(_)
        | PdsError::Renewal(_)
        | PdsError::Unresolved(_) => {
            return Err(Stop::retry("upstream", text));
        }
    };
    match refusal.status {
        StatusCode::TOO_MANY_REQUESTS => {
            let wait = refusal.retry_after.and_then(|time| i64::try_from(time.as_secs()).ok());
            let after = Some(wait.unwrap_or(LIMITED_SECONDS));
            Err(Stop::Retry { code: "rate-limited", text, after })
        }
        status if status.is_server_error() => Err(Stop::retry("upstream", text)),
        StatusCode::UNAUTHORIZED => Err(no_session()),
        StatusCode::FORBIDDEN => Err(Stop::pause("out-of-scope", text)),
        _ if matches!(refusal.code().as_str(), "InvalidRequest" | "InvalidRecord" | "") => Ok(text),
        _ => Err(Stop::pause("upstream", text)),
    }
}

pub(super) fn no_session() -> Stop {
    let text = "the session that links to the user's PDS has ended: sync again with a current session";
    Stop::pause("no-session", text)
}

/// The effect of a failed refresh of the tokens on the sync.
pub(super) fn account_stop(error: AccountError) -> Stop {
    match error {
        AccountError::Call(error) => call_stop(error),
        AccountError::Store(error) => error.into(),
        AccountError::Expired | AccountError::NotLinked => Stop::pause("needs-reauth", AccountError::Expired),
        AccountError::Sealed(error) => {
            tracing::error!(%error, "the tokens of an external account can't be opened");
            Stop::pause("internal", "the account's tokens can't be opened: link the account again")
        }
        error => Stop::retry("upstream", error.public_text()),
    }
}

/// The effect of a failed call of the plugin on the sync.
pub(super) fn call_stop(error: CallError) -> Stop {
    let fault = match error {
        CallError::Fault(fault) => fault,
        // Most likely no attempt was made. The call has waited for seconds already.
        CallError::Busy => {
            let text = CallError::Busy.to_string();
            return Stop::Retry { code: "rate-limited", text, after: Some(1) };
        }
        // Each such call counts against the plugin: repeating it would pause the plugin for all its users.
        CallError::Failed(failure) => {
            return Stop::pause("internal", format!("the plugin failed: {}", failure.cause));
        }
        CallError::Paused => return Stop::paused(),
        CallError::Unsupported(what) => {
            return Stop::fail("unsupported", format!("the plugin has no {what}"));
        }
    };
    let text = check::shown(&fault.message);
    match fault.code {
        FaultCode::RateLimited => {
            let wait = fault.retry_after_ms.map(|ms| i64::try_from(ms / 1_000).unwrap_or(i64::MAX));
            Stop::Retry { code: "rate-limited", text, after: Some(wait.unwrap_or(LIMITED_SECONDS)) }
        }
        FaultCode::Upstream | FaultCode::TimedOut => Stop::retry("upstream", text),
        FaultCode::NeedsReauth | FaultCode::AuthRequired => Stop::pause("needs-reauth", text),
        FaultCode::Forbidden => Stop::pause("forbidden", text),
        FaultCode::OutOfScope => Stop::pause("out-of-scope", text),
        FaultCode::Quota => Stop::pause("quota", text),
        FaultCode::TooLarge => Stop::fail("too-large", text),
        _ => Stop::fail("upstream", text),
    }
}
