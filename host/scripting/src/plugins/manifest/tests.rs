use http::Method;
use serde_json::{Value, json};

use super::*;

fn manifest() -> Value {
    json!({
        "id": "steam", "name": "Steam", "version": "1.2.0", "api_version": "1", "auth_type": "openid",
        "required_secrets": [{"key": "PLUGIN_STEAM_API_KEY", "name": "API key"}],
        "hosts": ["api.steampowered.com", {"host": "*.example.com", "methods": ["GET"]}],
        "collections": ["dev.games.actor.stats"], "lookups": ["dev.games.game"], "signs": true
    })
}

fn parse(manifest: &Value) -> Result<Manifest, InvalidManifest> {
    Manifest::parse(manifest.to_string().as_bytes())
}

#[test]
fn permissions_have_a_text_and_a_sentence() {
    let manifest = parse(&manifest()).unwrap();
    let texts: Vec<String> = manifest.permissions.iter().map(ToString::to_string).collect();
    let expected = [
        "network:request?host=api.steampowered.com",
        "network:request?host=*.example.com&method=GET",
        "records:write?collection=dev.games.actor.stats",
        "records:read?collection=dev.games.game",
        "attest:sign",
    ];
    assert_eq!(texts, expected);
    for (text, permission) in texts.iter().zip(&manifest.permissions) {
        assert_eq!(text.parse::<Permission>().as_ref(), Ok(permission));
    }
    assert_eq!(manifest.permissions[0].sentence(), "may call api.steampowered.com");
    assert_eq!(manifest.permissions[1].sentence(), "may send GET requests to *.example.com");
    assert_eq!(
        manifest.permissions[2].sentence(),
        "may write dev.games.actor.stats to the repo of a linked user"
    );
    assert_eq!(manifest.secret_names().collect::<Vec<_>>(), ["API_KEY"]);
    assert_eq!(manifest.wasm_file, "plugin.wasm");
}

#[test]
fn grants_are_compared_by_host_method_and_collection() {
    let grants = Grants::new(parse(&manifest()).unwrap().permissions);
    for (host, method, expected) in [
        ("api.steampowered.com", Method::POST, true),
        ("steampowered.com", Method::GET, false),
        ("api.steampowered.com.evil.example", Method::GET, false),
        ("a.example.com", Method::GET, true),
        ("a.example.com", Method::POST, false),
        ("a.b.example.com", Method::GET, false),
        ("example.com", Method::GET, false),
        (".example.com", Method::GET, false),
    ] {
        assert_eq!(grants.names_host(host, &method), expected, "{method} {host}");
    }
    assert!(grants.allow_write(&Nsid::try_from("dev.games.actor.stats").unwrap()));
    assert!(!grants.allow_write(&Nsid::try_from("dev.games.game").unwrap()));
    assert!(grants.allow_find(&Nsid::try_from("dev.games.game").unwrap()));
    assert!(!Grants::new(vec![Permission::UnrestrictedNetwork]).names_host("a.b", &Method::PUT));
    assert!(!Grants::default().has_network());
}

#[test]
fn invalid_manifests_are_refused_with_the_field() {
    let with = |field: &str, value: Value| {
        let mut manifest = manifest();
        manifest[field] = value;
        parse(&manifest).unwrap_err().0
    };
    assert!(with("api_version", json!("2")).contains("version 1"));
    assert!(with("api_version", json!("x")).contains("integer"));
    assert!(with("version", json!("1")).contains("version \"1\""));
    for id in ["", "Steam", "1steam", "a/b", "a_b", "\0", "official", "preview", &"a".repeat(65)] {
        assert!(with("id", json!(id)).contains("id"), "{id}");
    }
    for file in ["../x.wasm", "/x.wasm", "a//b", "a/./b", "http://x/y", "x?y", "%2e%2e/x"] {
        assert!(with("wasm_file", json!(file)).contains("wasm_file"), "{file}");
    }
    let no_hosts = [
        "https://a.example",
        "*.com",
        "*",
        "a.*.b.example",
        "A.example",
        "127.0.0.1",
        "[::1]",
        "a.example:80",
        "",
        "a..b",
    ];
    for host in no_hosts {
        assert!(HostPattern::try_from(host.to_owned()).is_err(), "{host}");
        for entry in [json!(host), json!({ "host": host, "methods": ["GET"] })] {
            let error = with("hosts", json!([entry]));
            assert!(
                error.starts_with("hosts: ") && error.contains("is no host: a name in lower case"),
                "{error}"
            );
        }
    }
    assert!(with("hosts", json!([7])).contains("7 is neither a host nor"));
    assert!(
        with("hosts", json!([{"host": "a.example", "method": "GET"}])).contains("unknown field `method`")
    );
    assert!(with("hosts", json!([{"host": "a.example", "methods": ["CONNECT"]}])).contains("CONNECT"));
    assert!(with("required_secrets", json!([{"key": "API_KEY", "name": "x"}])).contains("PLUGIN_STEAM_"));
    assert!(with("icon_url", json!("javascript:alert(1)")).contains("icon_url"));
    assert!(with("collections", json!(["no nsid"])).len() > 5);
    assert!(with("hosts", json!(vec!["a.example"; 65])).contains("64"));
    assert!(Manifest::parse(&vec![b' '; MAX_BYTES + 1]).is_err());
    assert!(Manifest::parse(b"{").is_err());
}

#[test]
fn what_anyone_may_register_names_below_is_no_owner() {
    let is_owned = |host: &str| HostPattern::try_from(host.to_owned()).unwrap().check_owner().is_ok();
    for host in ["*.co.uk", "co.uk", "com", "*.com.br", "*.github.io", "*.s3.amazonaws.com"] {
        assert!(!is_owned(host), "{host}");
    }
    let owned = [
        "example.com",
        "*.example.com",
        "*.example.co.uk",
        "octocat.github.io",
        "*.octocat.github.io",
        "s3.amazonaws.com",
        "localhost",
        "minio",
        "*.storage.internal",
    ];
    for host in owned {
        assert!(is_owned(host), "{host}");
    }
}
