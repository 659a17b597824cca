//! Checks the dependencies that parse untrusted input: their versions in `Cargo.lock` against RustSec advisories.
//!
//! `make lint` uses the database itself when it can be fetched. This list is a copy from 2026-10-02 (the newest entry
//! was RUSTSEC-2026-0327), so that a lock file with a version before a fix fails also without network.

/// Crate, patched versions, advisories. A locked version has a known advisory if it is older than the patched version
/// of its own series, or than the last one if its series has none.
const PATCHED: &[(&str, &[&str], &str)] = &[
    ("aes-gcm", &["0.10.3"], "RUSTSEC-2023-0096"),
    ("bytes", &["1.11.1"], "RUSTSEC-2026-0007"),
    ("cranelift-codegen", &["0.73.1"], "RUSTSEC-2021-0067"),
    ("crossbeam-channel", &["0.5.15"], "RUSTSEC-2025-0024"),
    ("h2", &["0.4.16"], "RUSTSEC-2026-0258"),
    ("hickory-net", &["0.26.1"], "RUSTSEC-2026-0120"),
    ("hickory-proto", &["0.26.1"], "RUSTSEC-2026-0118, 0119"),
    ("http", &["0.1.20"], "RUSTSEC-2019-0033, 0034"),
    ("hyper", &["0.14.12"], "RUSTSEC-2021-0078, 0079, 2022-0022"),
    ("idna", &["1.0.0"], "RUSTSEC-2024-0421"),
    ("libsqlite3-sys", &["0.25.1"], "RUSTSEC-2022-0090"),
    ("ring", &["0.17.12"], "RUSTSEC-2025-0009"),
    ("rustls", &["0.23.45"], "RUSTSEC-2026-0285"),
    ("rustls-webpki", &["0.103.13"], "RUSTSEC-2026-0049, 0098, 0099, 0104"),
    ("smallvec", &["1.6.1"], "RUSTSEC-2021-0003"),
    ("sqlx", &["0.8.1"], "RUSTSEC-2024-0363"),
    ("tokio", &["1.44.2"], "RUSTSEC-2025-0023"),
    ("tracing-subscriber", &["0.3.20"], "RUSTSEC-2025-0055"),
    ("tungstenite", &["0.20.1"], "RUSTSEC-2023-0065"),
    ("wasmtime", &["48.0.4", "49.0.2"], "RUSTSEC-2026-0325, 0326, 0327"),
    ("zlib-rs", &["0.4.0"], "RUSTSEC-2024-0401"),
];

/// Other crates that parse untrusted input, without an advisory in the database.
const WITHOUT_ADVISORIES: &[&str] = &[
    "async-compression",
    "base64",
    "bs58",
    "data-encoding",
    "ecdsa",
    "elliptic-curve",
    "flate2",
    "hickory-resolver",
    "httparse",
    "hyper-util",
    "k256",
    "miniz_oxide",
    "p256",
    "percent-encoding",
    "reqwest",
    "serde_json",
    "sfv",
    "shrike",
    "sqlparser",
    "sqlx-postgres",
    "sqlx-sqlite",
    "tokio-tungstenite",
    "url",
    "zstd",
    "zstd-sys",
];

type Version = [u64; 3];

fn version(text: &str) -> Version {
    let plain = text.split(['-', '+']).next().unwrap();
    let mut parts = plain.split('.').map(|part| part.parse().unwrap());
    [(); 3].map(|()| parts.next().unwrap())
}

/// The versions that Cargo considers compatible: those with the same first non-zero number.
fn series(version: Version) -> Version {
    match version {
        [0, 0, patch] => [0, 0, patch],
        [0, minor, _] => [0, minor, 0],
        [major, ..] => [major, 0, 0],
    }
}

fn is_patched(locked: Version, patched: &[&str]) -> bool {
    let mut patched = patched.iter().map(|text| version(text));
    let last = patched.clone().next_back().unwrap();
    locked >= patched.find(|fixed| series(*fixed) == series(locked)).unwrap_or(last)
}

/// Name and version of each package.
fn locked() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    let value = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.unwrap().trim_matches('"').to_owned()
    };
    let packages = text.split("[[package]]").skip(1);
    packages.map(|package| (value(package, "name"), value(package, "version"))).collect()
}

#[test]
fn no_parser_of_untrusted_input_has_a_known_advisory() {
    let locked = locked();
    let versions = |name: &str| {
        let found: Vec<&str> =
            locked.iter().filter(|(known, _)| known == name).map(|(_, version)| version.as_str()).collect();
        assert!(!found.is_empty(), "{name} is not in Cargo.lock: list its replacement instead");
        found
    };
    for (name, patched, advisories) in PATCHED {
        for found in versions(name) {
            assert!(
                is_patched(version(found), patched),
                "{name} {found}: {advisories}, patched in {patched:?}"
            );
        }
    }
    for name in WITHOUT_ADVISORIES {
        versions(name);
    }
}

#[test]
fn an_older_version_is_detected() {
    let wasmtime = &["48.0.4", "49.0.2"];
    for (locked, patched) in [
        ("48.0.3", false),
        ("48.0.4", true),
        ("49.0.1", false),
        ("49.0.2", true),
        ("47.0.9", false),
        ("50.0.0", true),
    ] {
        assert_eq!(is_patched(version(locked), wasmtime), patched, "{locked}");
    }
    assert!(
        !is_patched(version("0.25.9"), &["0.26.1"]) && is_patched(version("2.1.2+zstd.1.5.7"), &["2.0.0"])
    );
}
