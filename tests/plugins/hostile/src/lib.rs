//! A plugin for tests of the host: each call does what its arguments say, and most of that is bad. It links accounts,
//! syncs and offers functions, and imports every capability and parts of WASI.

mod bad;
mod capabilities;
mod system;

wit_bindgen::generate!({
    path: "../../../wit/plugin",
    inline: "
        package test:hostile;

        world hostile {
            include belvedere:plugin/sync-plugin@1.0.0;
            include belvedere:plugin/library-plugin@1.0.0;
            import wasi:cli/exit@0.2.0;
            import wasi:cli/environment@0.2.0;
            import wasi:cli/stdout@0.2.0;
            import wasi:clocks/monotonic-clock@0.2.0;
            import wasi:filesystem/preopens@0.2.0;
            import wasi:random/random@0.2.0;
        }

        package wasi:io@0.2.0 {
            interface error { resource error; }
            interface poll { resource pollable { block: func(); } }
            interface streams {
                use error.{error};
                variant stream-error { last-operation-failed(error), closed }
                resource output-stream {
                    blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
                }
            }
        }
        package wasi:cli@0.2.0 {
            interface exit { exit: func(status: result); }
            interface environment {
                get-environment: func() -> list<tuple<string, string>>;
                get-arguments: func() -> list<string>;
            }
            interface stdout {
                use wasi:io/streams@0.2.0.{output-stream};
                get-stdout: func() -> output-stream;
            }
        }
        package wasi:clocks@0.2.0 {
            interface monotonic-clock {
                use wasi:io/poll@0.2.0.{pollable};
                subscribe-duration: func(when: u64) -> pollable;
            }
        }
        package wasi:filesystem@0.2.0 {
            interface types { resource descriptor; }
            interface preopens {
                use types.{descriptor};
                get-directories: func() -> list<tuple<descriptor, string>>;
            }
        }
        package wasi:random@0.2.0 {
            interface random { get-random-bytes: func(len: u64) -> list<u8>; }
        }
    ",
    world: "test:hostile/hostile",
    generate_all,
});

use belvedere::plugin::types::{Fault, FaultCode};
use exports::belvedere::plugin::{callable, describe, linking, sync};
use serde_json::Value;

/// The test replaces the word after `=` in the file: `hang`, `trap`, `id`, `version`, `auth`, `secret`.
#[used]
static DESCRIBE: [u8; 24] = *b"describe=honest---------";

struct Hostile;
export!(Hostile);

/// The behaviour of `describe`.
fn describe_as() -> String {
    // Read as if it could change, so that the compiler does not fold it.
    let bytes = std::hint::black_box(&DESCRIBE);
    let text = String::from_utf8_lossy(&bytes[9..]).into_owned();
    text.trim_end_matches('-').to_owned()
}

impl describe::Guest for Hostile {
    fn get() -> describe::Info {
        let mode = describe_as();
        match mode.as_str() {
            "hang" => bad::hang(),
            "trap" => bad::trap(),
            "network" => drop(capabilities::http(&serde_json::json!({"url": "https://localhost/"})).unwrap()),
            _ => {}
        }
        let lie = |what: &str, truth: &str| if mode == what { "lie".to_owned() } else { truth.to_owned() };
        let secret = describe::Secret { name: "LIE".to_owned(), label: "Lie".to_owned(), help: None };
        describe::Info {
            id: lie("id", "hostile"),
            name: "Hostile".to_owned(),
            version: if mode == "version" { "9.9.9".to_owned() } else { "1.0.0".to_owned() },
            auth: if mode == "auth" { describe::AuthKind::Oauth2 } else { describe::AuthKind::ApiKey },
            secrets: if mode == "secret" { vec![secret] } else { Vec::new() },
            config_schema: (mode == "schema").then(|| "{".to_owned()),
        }
    }
}

impl callable::Guest for Hostile {
    fn surface() -> Vec<callable::Function> {
        let function = |name: &str| callable::Function { name: name.to_owned(), params: vec![], help: None };
        ["echo", "hang", "trap", "spin", "log", "big", "http", "kv_flood"].map(function).into()
    }

    fn call(name: String, args: String, context: callable::Context) -> Result<String, Fault> {
        let list: Vec<Value> = serde_json::from_str(&args).map_err(|error| bad_input(&error.to_string()))?;
        let arg = list.first().cloned().unwrap_or_default();
        match name.as_str() {
            "echo" => Ok(args),
            "caller" => Ok(serde_json::json!([context.caller, context.has_session]).to_string()),
            "fault" => Err(bad_input(arg.as_str().unwrap_or_default())),
            _ => act(&name, &arg),
        }
    }
}

/// Does what is asked for; the result is JSON text, except where bad results are asked for.
fn act(name: &str, arg: &Value) -> Result<String, Fault> {
    let number = || usize::try_from(arg.as_u64().unwrap()).unwrap();
    let json = |value: Value| Ok(value.to_string());
    match name {
        "hang" => bad::hang(),
        "trap" => bad::trap(),
        "spin" => json(bad::spin(arg.as_u64().unwrap()).into()),
        "panic" => panic!("on purpose"),
        "stack" => json(bad::recurse(0).into()),
        "grow" => json(bad::grow().into()),
        "allocate" => json(bad::allocate().into()),
        "big" => Ok(bad::big(number())),
        "not_json" => Ok("{".to_owned()),
        "deep_json" => Ok("[".repeat(1_000_000)),
        "broken_text" => Ok(bad::broken_text()),
        "log" => json(capabilities::log(arg)),
        "log_secret" => json(capabilities::log_secret(arg.as_u64().unwrap())),
        "now" => json(belvedere::plugin::clock::now_ms().into()),
        "random" => json(belvedere::plugin::clock::random(u32::MAX).len().into()),
        "secret" => json(belvedere::plugin::secrets::get(arg.as_str().unwrap()).into()),
        "kv_get" => capabilities::kv_get(arg),
        "kv_set" => capabilities::kv_set(arg),
        "kv_delete" => capabilities::kv_delete(arg),
        "kv_flood" => capabilities::kv_flood(arg),
        "http" => capabilities::http(arg),
        "http_all" => json(capabilities::http_all(arg)),
        "find" => capabilities::find(arg),
        "sign" => capabilities::sign(arg),
        "verify" => json(capabilities::verify(arg).into()),
        "exit" => system::exit(),
        "environment" => json(system::environment()),
        "sleep" => system::sleep(),
        "nap" => json(system::nap(arg.as_u64().unwrap()).into()),
        "print" => json(system::print(arg.as_str().unwrap()).into()),
        "print_flood" => json(system::print_flood().into()),
        "wasi_random" => json(system::random(arg.as_u64().unwrap()).into()),
        "timers" => json(system::timers(number()).into()),
        other => Err(bad_input(&format!("there is no {other}"))),
    }
}

/// A call of another interface is asked for what `call` does by `{"do": NAME, "with": ARGUMENT}` in its configuration.
fn configured(config: &str) -> Result<Value, Fault> {
    let config: Value = serde_json::from_str(config).map_err(|error| bad_input(&error.to_string()))?;
    if let Some(name) = config["do"].as_str() {
        act(name, &config["with"])?;
    }
    Ok(config)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn tokens(config: &Value) -> linking::Tokens {
    let given = &config["tokens"];
    linking::Tokens {
        access: text(&given["access"]).unwrap_or_else(|| "access-token-1".to_owned()),
        refresh: text(&given["refresh"]),
        token_type: text(&given["token_type"]).unwrap_or_else(|| "Bearer".to_owned()),
        scope: text(&given["scope"]),
        expiry: match (&given["at"], &given["in"]) {
            (Value::String(at), _) => linking::Expiry::At(at.clone()),
            (_, Value::Number(seconds)) => {
                linking::Expiry::InSeconds(u32::try_from(seconds.as_u64().unwrap()).unwrap())
            }
            _ => linking::Expiry::Never,
        },
    }
}

impl linking::Guest for Hostile {
    fn authorize_url(start: linking::Start) -> Result<String, Fault> {
        let config = configured(&start.config)?;
        capabilities::set("flow", "verifier", start.state.as_bytes())?;
        let url = || format!("https://service.example/?state={}", start.state);
        Ok(text(&config["url"]).unwrap_or_else(url))
    }

    fn handle_callback(callback: linking::Callback) -> Result<linking::Tokens, Fault> {
        let mut config = configured(&callback.config)?;
        // The value that `authorize-url` kept for this sign-in is the access token.
        if let Some(verifier) = capabilities::get("flow", "verifier")? {
            config["tokens"]["access"] = String::from_utf8(verifier).unwrap().into();
        }
        Ok(tokens(&config))
    }

    fn connect(config: String) -> Result<linking::Tokens, Fault> {
        Ok(tokens(&configured(&config)?))
    }

    fn refresh(old: linking::Tokens, config: String) -> Result<linking::Tokens, Fault> {
        let new = tokens(&configured(&config)?);
        Ok(linking::Tokens { access: format!("{} again", old.access), ..new })
    }

    fn get_profile(tokens: linking::Tokens, config: String) -> Result<linking::Profile, Fault> {
        let profile = &configured(&config)?["profile"];
        Ok(linking::Profile {
            account_id: text(&profile["account_id"]).unwrap_or(tokens.access),
            display_name: text(&profile["display_name"]),
            profile_url: text(&profile["profile_url"]),
            avatar_url: text(&profile["avatar_url"]),
        })
    }

    fn revoke(tokens: linking::Tokens) -> Result<(), Fault> {
        if tokens.access == "unknown" { Err(bad_input("there are no such tokens")) } else { Ok(()) }
    }
}

impl sync::Guest for Hostile {
    /// `{"items": COUNT, "size": BYTES, "collection": NSID, "value": JSON TEXT, "endless": BOOL, "next": TEXT}`
    fn pull(_: linking::Tokens, config: String, cursor: Option<String>) -> Result<sync::Page, Fault> {
        let config = configured(&config)?;
        let count = config["items"].as_u64().unwrap_or(0);
        let filling = "x".repeat(usize::try_from(config["size"].as_u64().unwrap_or(0)).unwrap());
        let value = serde_json::json!({"$type": "com.example.item", "filling": filling}).to_string();
        let item = |n: u64| sync::Item {
            collection: text(&config["collection"]).unwrap_or_else(|| "com.example.item".to_owned()),
            value: text(&config["value"]).unwrap_or_else(|| value.clone()),
            dedup_key: Some(n.to_string()),
            sign: false,
        };
        let page: u64 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let endless = (config["endless"] == true).then(|| (page + 1).to_string());
        Ok(sync::Page { items: (0..count).map(item).collect(), next: text(&config["next"]).or(endless) })
    }
}

fn bad_input(message: &str) -> Fault {
    let message = message.to_owned();
    Fault { code: FaultCode::BadInput, message, status: None, body: None, retry_after_ms: None }
}
