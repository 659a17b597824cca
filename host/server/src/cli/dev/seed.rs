//! Reads the folder `seed`: `accounts.json` has the accounts, and the other files the records of the stand-in network.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::super::folder::entries;
use super::network::{Account, did_of};
use belvedere_protocol::atproto::{AtIdentifier, Did, Handle, RecordUri, set_record_type};

const ACCOUNTS: &str = "accounts.json";

/// The account of a folder that names none: it can log in to the dashboard.
const DEFAULT_HANDLE: &str = "dev.test";

/// The accounts and records of a folder.
#[derive(Debug, Default)]
pub(super) struct Seed {
    /// In the order of the file. Never empty.
    pub(super) accounts: Vec<Account>,
    /// By URI.
    pub(super) records: BTreeMap<String, Value>,
    /// The parts that are left out, as `FILE: reason` or `FILE:LINE: reason`.
    pub(super) problems: Vec<String>,
}

/// An account, as `given.account` of tests has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeededAccount {
    handle: String,
    did: Option<String>,
}

/// A record, as `given.record` of tests has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeededRecord {
    /// Its authority may be the handle of an account.
    uri: String,
    record: Map<String, Value>,
}

impl Seed {
    /// Reads a folder, which need not exist.
    pub(super) fn read(dir: &Path) -> Self {
        let mut seed = Self::default();
        seed.read_accounts(&dir.join(ACCOUNTS));
        // A folder that does not exist has no files.
        for path in entries(dir).unwrap_or_default() {
            let is_accounts = path.file_name().is_some_and(|name| name == ACCOUNTS);
            let extension = path.extension().and_then(|extension| extension.to_str());
            match extension.filter(|_| !is_accounts) {
                Some("json") => seed.read_file(&path),
                Some("jsonl") => seed.read_lines(&path),
                _ => {}
            }
        }
        seed
    }

    fn problem(&mut self, path: &Path, line: Option<usize>, reason: &dyn std::fmt::Display) {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        self.problems.push(format!("{}{line}: {reason}", path.display()));
    }

    fn read_accounts(&mut self, path: &Path) {
        let accounts: Vec<SeededAccount> =
            if path.exists() { self.parse(path).unwrap_or_default() } else { Vec::new() };
        for SeededAccount { handle, did } in accounts {
            let did = did.unwrap_or_else(|| did_of(&handle));
            if Handle::try_from(handle.as_str()).is_err() {
                self.problem(path, None, &format_args!("{handle:?} is not a handle such as alice.test"));
            } else if Did::try_from(did.as_str()).is_err() {
                self.problem(path, None, &format_args!("{did:?} is not a DID such as did:plc:alice"));
            } else {
                self.accounts.push(Account { did, handle });
            }
        }
        if self.accounts.is_empty() {
            self.accounts.push(Account { did: did_of(DEFAULT_HANDLE), handle: DEFAULT_HANDLE.to_owned() });
        }
    }

    fn parse<T: DeserializeOwned>(&mut self, path: &Path) -> Option<T> {
        let text = fs::read_to_string(path).map_err(|error| self.problem(path, None, &error)).ok()?;
        serde_json::from_str(&text).map_err(|error| self.problem(path, Some(error.line()), &error)).ok()
    }

    /// Reads a list of records.
    fn read_file(&mut self, path: &Path) {
        for record in self.parse::<Vec<SeededRecord>>(path).unwrap_or_default() {
            self.add(path, None, record);
        }
    }

    /// Reads a file with a record on each line.
    fn read_lines(&mut self, path: &Path) {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.problem(path, None, &error),
        };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(record) => self.add(path, Some(at + 1), record),
                Err(error) => self.problem(path, Some(at + 1), &error),
            }
        }
    }

    fn add(&mut self, path: &Path, line: Option<usize>, SeededRecord { uri, mut record }: SeededRecord) {
        match self.check(&uri, &mut record) {
            Ok(uri) => drop(self.records.insert(uri, Value::Object(record))),
            Err(reason) => self.problem(path, line, &format_args!("{uri}: {reason}")),
        }
    }

    /// The URI with a DID, if the record can be one there.
    fn check(&self, uri: &str, record: &mut Map<String, Value>) -> Result<String, String> {
        let named = AtIdentifier::handle_of_uri(uri);
        let uri = match &named {
            Some((handle, path)) => {
                let account = self.accounts.iter().find(|account| account.handle == handle.as_str());
                let account =
                    account.ok_or_else(|| format!("{ACCOUNTS} has no account {}", handle.as_str()))?;
                format!("at://{}{path}", account.did)
            }
            None => uri.to_owned(),
        };
        let parsed = RecordUri::parse(&uri).map_err(|error| error.to_string())?;
        if !self.accounts.iter().any(|account| account.did == parsed.did.as_str()) {
            return Err(format!("{ACCOUNTS} has no account {}", parsed.did));
        }
        set_record_type(record, parsed.collection.as_str()).map_err(|error| error.to_string())?;
        Ok(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_records_are_read_and_problems_name_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write(
            "accounts.json",
            r#"[{ "handle": "alice.test" }, { "handle": "bob.test", "did": "did:plc:bob" }, { "handle": "no" }]"#,
        );
        write(
            "notes.json",
            r#"[{ "uri": "at://alice.test/com.example.note/1", "record": { "text": "one" } }]"#,
        );
        write(
            "more.jsonl",
            "{ \"uri\": \"at://did:plc:bob/com.example.note/2\", \"record\": {} }\n\n{ \"uri\": \"at://eve.test/a.b.c/1\", \"record\": {} }\nnonsense\n",
        );
        let seed = Seed::read(dir.path());
        let handles: Vec<_> = seed.accounts.iter().map(|account| account.handle.as_str()).collect();
        assert_eq!(handles, ["alice.test", "bob.test"]);
        let alice = format!("at://{}/com.example.note/1", did_of("alice.test"));
        assert_eq!(seed.records.len(), 2, "{seed:?}");
        assert_eq!(seed.records[&alice]["$type"], "com.example.note");
        let problems = seed.problems.join("\n");
        for part in ["\"no\" is not a handle", "more.jsonl:3: at://eve.test", "more.jsonl:4: "] {
            assert!(problems.contains(part), "{problems}");
        }
    }

    #[test]
    fn a_folder_without_seeds_has_one_account() {
        let dir = tempfile::tempdir().unwrap();
        let seed = Seed::read(&dir.path().join("seed"));
        assert_eq!(seed.accounts[0].handle, DEFAULT_HANDLE);
        assert!(seed.problems.is_empty(), "{seed:?}");
    }
}
