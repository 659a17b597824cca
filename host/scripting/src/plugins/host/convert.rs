//! Converts the generated types to those of this room, and back.

use super::bindings::belvedere::plugin::types;
use super::bindings::exports::belvedere::plugin::{callable, describe, linking, sync};
use crate::plugins::calls::{
    AuthKind, Callback, Expiry, Fault, FaultCode, Function, Info, Item, Page, Profile, SecretInfo, Start,
    Tokens,
};
use belvedere_base::clock::Timestamp;

pub(super) fn fault(fault: types::Fault) -> Fault {
    use types::FaultCode as Code;
    let code = match fault.code {
        Code::BadInput => FaultCode::BadInput,
        Code::InvalidRecord => FaultCode::InvalidRecord,
        Code::Forbidden => FaultCode::Forbidden,
        Code::NotFound => FaultCode::NotFound,
        Code::Conflict => FaultCode::Conflict,
        Code::NoSession => FaultCode::NoSession,
        Code::AuthRequired => FaultCode::AuthRequired,
        Code::OutOfScope => FaultCode::OutOfScope,
        Code::NeedsReauth => FaultCode::NeedsReauth,
        Code::NotLinked => FaultCode::NotLinked,
        Code::Upstream => FaultCode::Upstream,
        Code::RateLimited => FaultCode::RateLimited,
        Code::TimedOut => FaultCode::TimedOut,
        Code::TooLarge => FaultCode::TooLarge,
        Code::Quota => FaultCode::Quota,
        Code::Unsupported => FaultCode::Unsupported,
        Code::Internal => FaultCode::Internal,
    };
    Fault {
        code,
        message: fault.message,
        status: fault.status,
        body: fault.body,
        retry_after_ms: fault.retry_after_ms,
    }
}

pub(super) fn info(info: describe::Info) -> Info {
    Info {
        id: info.id,
        name: info.name,
        version: info.version,
        auth: match info.auth {
            describe::AuthKind::Oauth2 => AuthKind::Oauth2,
            describe::AuthKind::Openid => AuthKind::Openid,
            describe::AuthKind::ApiKey => AuthKind::ApiKey,
            describe::AuthKind::None => AuthKind::None,
        },
        secrets: info
            .secrets
            .into_iter()
            .map(|secret| SecretInfo { name: secret.name, label: secret.label, help: secret.help })
            .collect(),
        config_schema: info.config_schema,
    }
}

pub(super) fn start(start: Start) -> linking::Start {
    linking::Start { state: start.state, redirect_uri: start.redirect_uri, config: start.config }
}

pub(super) fn callback(callback: Callback) -> linking::Callback {
    linking::Callback {
        state: callback.state,
        redirect_uri: callback.redirect_uri,
        params: callback.params,
        config: callback.config,
    }
}

pub(super) fn to_plugin(tokens: &Tokens) -> linking::Tokens {
    linking::Tokens {
        access: tokens.access.clone(),
        refresh: tokens.refresh.clone(),
        token_type: tokens.token_type.clone(),
        scope: tokens.scope.clone(),
        expiry: match tokens.expiry {
            Expiry::Never => linking::Expiry::Never,
            Expiry::At(at) => linking::Expiry::At(at.to_string()),
        },
    }
}

/// A lifetime in seconds counts from `now`.
///
/// # Errors
/// A fault when the expiry is no time.
pub(super) fn from_plugin(tokens: linking::Tokens, now: Timestamp) -> Result<Tokens, Fault> {
    let expiry = match tokens.expiry {
        linking::Expiry::Never => Expiry::Never,
        linking::Expiry::InSeconds(seconds) => Expiry::At(now.plus_seconds(i64::from(seconds))),
        linking::Expiry::At(text) => match Timestamp::parse(&text) {
            Ok(at) => Expiry::At(at),
            Err(_) => {
                return Err(Fault {
                    code: FaultCode::Upstream,
                    message: "the expiry of the tokens is not RFC 3339".to_owned(),
                    status: None,
                    body: None,
                    retry_after_ms: None,
                });
            }
        },
    };
    Ok(Tokens {
        access: tokens.access,
        refresh: tokens.refresh,
        token_type: tokens.token_type,
        scope: tokens.scope,
        expiry,
    })
}

pub(super) fn profile(profile: linking::Profile) -> Profile {
    Profile {
        account_id: profile.account_id,
        display_name: profile.display_name,
        profile_url: profile.profile_url,
        avatar_url: profile.avatar_url,
    }
}

pub(super) fn page(page: sync::Page) -> Page {
    let items = page.items.into_iter().map(|item| Item {
        collection: item.collection,
        value: item.value,
        dedup_key: item.dedup_key,
        sign: item.sign,
    });
    Page { items: items.collect(), next: page.next }
}

pub(super) fn function(function: callable::Function) -> Function {
    Function { name: function.name, params: function.params, help: function.help }
}
