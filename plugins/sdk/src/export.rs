//! The macros that export a plugin: they generate the bindings of what it exports in the plugin's crate, and connect them
//! with the traits of this one.

use std::panic;

use serde_json::Value;

pub use crate::manifest::{AuthType, Manifest};
use crate::{Fault, log};

/// Exports a plugin that links accounts. The second argument is the folder of the contract, from the crate's.
#[macro_export]
macro_rules! account_plugin {
    ($plugin:ident, $wit:literal) => {
        $crate::__export!(
            $plugin,
            $wit,
            "package belvedere:exports;
             world exports {
                 export belvedere:plugin/describe@1.0.0;
                 export belvedere:plugin/linking@1.0.0;
             }",
            __export_linking
        );
    };
}

/// Exports a plugin that links accounts and writes records from them. The second argument is the folder of the contract,
/// from the crate's.
#[macro_export]
macro_rules! sync_plugin {
    ($plugin:ident, $wit:literal) => {
        $crate::__export!(
            $plugin,
            $wit,
            "package belvedere:exports;
             world exports {
                 export belvedere:plugin/describe@1.0.0;
                 export belvedere:plugin/linking@1.0.0;
                 export belvedere:plugin/sync@1.0.0;
             }",
            __export_linking __export_sync
        );
    };
}

/// Exports a plugin that offers functions to scripts. The second argument is the folder of the contract, from the
/// crate's.
#[macro_export]
macro_rules! library_plugin {
    ($plugin:ident, $wit:literal) => {
        $crate::__export!(
            $plugin,
            $wit,
            "package belvedere:exports;
             world exports {
                 export belvedere:plugin/describe@1.0.0;
                 export belvedere:plugin/callable@1.0.0;
             }",
            __export_callable
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($plugin:ident, $wit:literal, $world:literal, $($interface:ident)*) => {
        mod plugin_exports {
            use super::$plugin as Implementation;

            $crate::wit_bindgen::generate!({
                path: $wit,
                inline: $world,
                world: "belvedere:exports/exports",
                runtime_path: "belvedere_plugin::wit_bindgen::rt",
                with: {
                    "belvedere:plugin/types@1.0.0": belvedere_plugin::bindings::imports::belvedere::plugin::types,
                },
            });

            struct Exported;
            $crate::__export_describe!();
            $($crate::$interface!();)*
            // Other linkers refuse the names of these symbols, and tests need none of them.
            #[cfg(target_family = "wasm")]
            export!(Exported);
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_describe {
    () => {
        impl exports::belvedere::plugin::describe::Guest for Exported {
            fn get() -> exports::belvedere::plugin::describe::Info {
                use exports::belvedere::plugin::describe::{AuthKind, Info, Secret};
                use $crate::export::{AuthType, Manifest};
                $crate::export::begin();
                let manifest = Manifest::parse(<Implementation as $crate::Plugin>::MANIFEST);
                let secrets = manifest.required_secrets.iter().map(|secret| Secret {
                    name: manifest.short_name(&secret.key).to_owned(),
                    label: secret.name.clone(),
                    help: secret.description.clone(),
                });
                Info {
                    secrets: secrets.collect(),
                    auth: match manifest.auth_type {
                        AuthType::Oauth2 => AuthKind::Oauth2,
                        AuthType::Openid => AuthKind::Openid,
                        AuthType::ApiKey => AuthKind::ApiKey,
                        AuthType::None => AuthKind::None,
                    },
                    config_schema: manifest.config_schema.as_ref().map(ToString::to_string),
                    id: manifest.id,
                    name: manifest.name,
                    version: manifest.version,
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_linking {
    () => {
        use exports::belvedere::plugin::linking as wit_linking;

        fn tokens_in(tokens: wit_linking::Tokens) -> $crate::Tokens {
            $crate::Tokens {
                access: tokens.access,
                refresh: tokens.refresh,
                token_type: tokens.token_type,
                scope: tokens.scope,
                expiry: match tokens.expiry {
                    wit_linking::Expiry::Never => $crate::Expiry::Never,
                    wit_linking::Expiry::At(time) => $crate::Expiry::At(time),
                    wit_linking::Expiry::InSeconds(seconds) => $crate::Expiry::InSeconds(seconds),
                },
            }
        }

        fn tokens_out(tokens: $crate::Tokens) -> wit_linking::Tokens {
            wit_linking::Tokens {
                access: tokens.access,
                refresh: tokens.refresh,
                token_type: tokens.token_type,
                scope: tokens.scope,
                expiry: match tokens.expiry {
                    $crate::Expiry::Never => wit_linking::Expiry::Never,
                    $crate::Expiry::At(time) => wit_linking::Expiry::At(time),
                    $crate::Expiry::InSeconds(seconds) => wit_linking::Expiry::InSeconds(seconds),
                },
            }
        }

        impl wit_linking::Guest for Exported {
            fn authorize_url(start: wit_linking::Start) -> Result<String, $crate::Fault> {
                $crate::export::begin();
                <Implementation as $crate::AccountPlugin>::authorize_url(&$crate::Start {
                    state: start.state,
                    redirect_uri: start.redirect_uri,
                    config: $crate::export::read_json(&start.config)?,
                })
            }

            fn handle_callback(
                callback: wit_linking::Callback,
            ) -> Result<wit_linking::Tokens, $crate::Fault> {
                $crate::export::begin();
                let callback = $crate::Callback {
                    state: callback.state,
                    redirect_uri: callback.redirect_uri,
                    params: callback.params,
                    config: $crate::export::read_json(&callback.config)?,
                };
                <Implementation as $crate::AccountPlugin>::handle_callback(&callback).map(tokens_out)
            }

            fn connect(config: String) -> Result<wit_linking::Tokens, $crate::Fault> {
                $crate::export::begin();
                let config = $crate::export::read_json(&config)?;
                <Implementation as $crate::AccountPlugin>::connect(&config).map(tokens_out)
            }

            fn refresh(
                tokens: wit_linking::Tokens,
                config: String,
            ) -> Result<wit_linking::Tokens, $crate::Fault> {
                $crate::export::begin();
                let config = $crate::export::read_json(&config)?;
                <Implementation as $crate::AccountPlugin>::refresh(&tokens_in(tokens), &config)
                    .map(tokens_out)
            }

            fn get_profile(
                tokens: wit_linking::Tokens,
                config: String,
            ) -> Result<wit_linking::Profile, $crate::Fault> {
                $crate::export::begin();
                let config = $crate::export::read_json(&config)?;
                let profile =
                    <Implementation as $crate::AccountPlugin>::profile(&tokens_in(tokens), &config)?;
                Ok(wit_linking::Profile {
                    account_id: profile.account_id,
                    display_name: profile.display_name,
                    profile_url: profile.profile_url,
                    avatar_url: profile.avatar_url,
                })
            }

            fn revoke(tokens: wit_linking::Tokens) -> Result<(), $crate::Fault> {
                $crate::export::begin();
                <Implementation as $crate::AccountPlugin>::revoke(&tokens_in(tokens))
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_sync {
    () => {
        impl exports::belvedere::plugin::sync::Guest for Exported {
            fn pull(
                tokens: wit_linking::Tokens,
                config: String,
                cursor: Option<String>,
            ) -> Result<exports::belvedere::plugin::sync::Page, $crate::Fault> {
                $crate::export::begin();
                let config = $crate::export::read_json(&config)?;
                let tokens = tokens_in(tokens);
                let page = <Implementation as $crate::SyncPlugin>::pull(&tokens, &config, cursor.as_deref())?;
                let items = page.items.into_iter().map(|item| exports::belvedere::plugin::sync::Item {
                    collection: item.collection,
                    value: item.value.to_string(),
                    dedup_key: item.dedup_key,
                    sign: item.sign,
                });
                Ok(exports::belvedere::plugin::sync::Page { items: items.collect(), next: page.next })
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_callable {
    () => {
        use exports::belvedere::plugin::callable as wit_callable;

        impl wit_callable::Guest for Exported {
            fn surface() -> Vec<wit_callable::Function> {
                $crate::export::begin();
                let functions = <Implementation as $crate::LibraryPlugin>::functions().into_iter();
                functions
                    .map(|f| wit_callable::Function { name: f.name, params: f.params, help: f.help })
                    .collect()
            }

            fn call(
                name: String,
                args: String,
                context: wit_callable::Context,
            ) -> Result<String, $crate::Fault> {
                $crate::export::begin();
                let context = $crate::Context { caller: context.caller, has_session: context.has_session };
                let args = $crate::export::read_array(&args)?;
                let value = <Implementation as $crate::LibraryPlugin>::call(&name, &args, &context)?;
                Ok(value.to_string())
            }
        }
    };
}

/// Has the message of a panic logged: the host sees only that the module trapped. Each call is a new instance, so this
/// is the first thing that each does.
pub fn begin() {
    panic::set_hook(Box::new(|panic| log::error(&panic.to_string())));
}

pub fn read_json(text: &str) -> Result<Value, Fault> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| Fault::bad_input(format!("the JSON can't be read: {error}")))
}

pub fn read_array(text: &str) -> Result<Vec<Value>, Fault> {
    match read_json(text)? {
        Value::Array(values) => Ok(values),
        _ => Err(Fault::bad_input("the arguments are no array")),
    }
}
