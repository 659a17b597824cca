//! Shows what a backfill is expected to cost.

use std::process::ExitCode;

use serde::Deserialize;
use url::form_urlencoded;

use super::super::display::grouped;
use super::super::print_line;
use super::super::remote::Remote;

/// The server's plan.
#[derive(Debug, Deserialize)]
struct Plan {
    collections: Vec<String>,
    repos: u64,
    repos_at_least: bool,
    lists_all_repos: bool,
    sampled: u64,
    unreachable: u64,
    records: u64,
    records_at_least: bool,
    requests: u64,
    bytes: u64,
    seconds: u64,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Sources {
    pages: Share,
    car: Share,
}

#[derive(Debug, Deserialize)]
struct Share {
    repos: u64,
    requests: u64,
    bytes: u64,
}

pub(super) async fn show(
    remote: &Remote,
    collection: Option<&str>,
    did: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("collection", collection), ("did", did)] {
        query.extend_pairs(value.map(|value| (name, value)));
    }
    let plan: Plan = remote.get(&format!("/admin/backfill/plan?{}", query.finish())).await?;
    print_line(&plan.text());
    Ok(ExitCode::SUCCESS)
}

impl Plan {
    fn text(&self) -> String {
        let at_least = if self.repos_at_least { "at least " } else { "" };
        let more = if self.repos_at_least || self.records_at_least { "at least " } else { "" };
        let all = if self.lists_all_repos {
            ", every one of the relay's: it can't list those of a collection"
        } else {
            ""
        };
        let share = |name: &str, share: &Share| {
            let Share { repos, requests, bytes } = share;
            format!(
                "{name:<12}{} repos, {} requests, {}\n",
                grouped(*repos),
                grouped(*requests),
                size(*bytes)
            )
        };
        format!(
            "{:<12}{}\n{:<12}{at_least}{}{all}\n{:<12}{more}{}\n{:<12}{more}{}\n{}{}{:<12}{more}{}\n\
             {:<12}{} repos, of which {} could not be read",
            "collections",
            self.collections.join(", "),
            "repos",
            grouped(self.repos),
            "records",
            grouped(self.records),
            "requests",
            format_args!("{}, {}", grouped(self.requests), size(self.bytes)),
            share("  by pages", &self.sources.pages),
            share("  by CAR", &self.sources.car),
            "time",
            time(self.seconds),
            "sample",
            grouped(self.sampled),
            grouped(self.unreachable),
        )
    }
}

/// Bytes in a unit that leaves at least two digits.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{} bytes", grouped(bytes)),
        10_000..10_000_000 => format!("{} kB", grouped(bytes / 1_000)),
        _ => format!("{} MB", grouped(bytes / 1_000_000)),
    }
}

fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", grouped(seconds / 3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_in_lines_with_units() {
        let plan = Plan {
            collections: vec!["com.example.note".to_owned()],
            repos: 20_000,
            repos_at_least: true,
            records_at_least: false,
            lists_all_repos: false,
            sampled: 24,
            unreachable: 1,
            records: 1_234_567,
            requests: 70_000,
            bytes: 812_000_000,
            seconds: 7_300,
            sources: Sources {
                pages: Share { repos: 15_000, requests: 60_000, bytes: 12_345 },
                car: Share { repos: 5_000, requests: 10_000, bytes: 999 },
            },
        };
        let expected = "collections com.example.note\nrepos       at least 20,000\nrecords     at least 1,234,567\n\
                        requests    at least 70,000, 812 MB\n  by pages  15,000 repos, 60,000 requests, 12 kB\n  \
                        by CAR    5,000 repos, 10,000 requests, 999 bytes\ntime        at least 2 h\n\
                        sample      24 repos, of which 1 could not be read";
        assert_eq!(plan.text(), expected);
        let all = Plan { lists_all_repos: true, ..plan }.text();
        assert!(
            all.contains("at least 20,000, every one of the relay's: it can't list those of a collection"),
            "{all}"
        );
        assert_eq!([time(59), time(3_600)], ["59 s", "60 min"]);
    }
}
