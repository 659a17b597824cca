//! Tells the calls that change something outside of a run.

use crate::scripts::bindings::belvedere::script::http::{Method, Request};

/// The functions that only change something.
const WRITES: [&str; 15] = [
    "atproto.blob_upload",
    "atproto.blob_upload_bytes",
    "atproto.issue_label",
    "jobs.create",
    "linked_repos.call",
    "linked_repos.create_record",
    "linked_repos.delete_record",
    "linked_repos.put_record",
    "linked_repos.upload_blob",
    "moderation.lift",
    "moderation.moderate",
    "repo.delete_local",
    "repo.save",
    "repo.save_local",
    "xrpc.procedure",
];

/// The first words of statements that only read.
const READS: [&str; 4] = ["select", "with", "values", "explain"];

/// Whether a call of a function with these encoded arguments changes something outside of the run.
pub(super) fn is_write(name: &str, args: &[u8]) -> bool {
    match name {
        "http.send" => postcard::from_bytes::<(Vec<Request>,)>(args).is_ok_and(|(requests,)| {
            requests.iter().any(|request| !matches!(request.method, Method::Get | Method::Head))
        }),
        "db.raw" => postcard::from_bytes::<(String, Vec<u8>)>(args).is_ok_and(|(sql, _)| {
            let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            !READS.iter().any(|read| word.eq_ignore_ascii_case(read))
        }),
        name => WRITES.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_told_from_reads() {
        let request =
            |method| Request { method, url: "https://x".to_owned(), headers: Vec::new(), body: None };
        let http = |method| postcard::to_allocvec(&(vec![request(method)],)).unwrap();
        assert!(!is_write("http.send", &http(Method::Get)) && is_write("http.send", &http(Method::Post)));
        let raw = |sql: &str| postcard::to_allocvec(&(sql, b"[]".to_vec())).unwrap();
        assert!(
            !is_write("db.raw", &raw(" SELECT 1"))
                && is_write("db.raw", &raw("insert into script_a VALUES (1)"))
        );
        assert!(is_write("repo.save", b"") && !is_write("db.get", b"") && !is_write("db.raw", b"\xff"));
    }
}
