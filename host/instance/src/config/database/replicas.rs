//! The streaming replicas of PostgreSQL.

use std::time::Duration;

use super::is_postgres;
use crate::config::{NumberSetting, Problems, parse};

/// The default is some times what a healthy replica needs for a large transaction; a reader hardly notices it. The lag is
/// measured every second, so that less than the minimum would exclude healthy replicas. Readers take an older state than
/// the maximum for a fault; the server remembers the positions of this time.
pub(super) const MAX_LAG: NumberSetting<u64> = NumberSetting {
    variable: "DATABASE_READ_MAX_LAG_SECONDS",
    default: 10,
    range: 3..=300,
    about: "Seconds that a replica may be behind; one that is further behind answers no reads",
};
/// More replicas than one primary feeds. Each is watched by each host.
const MAX_REPLICAS: usize = 16;

/// The streaming replicas that answer reads.
#[derive(Clone, Default)]
pub struct Replicas {
    /// May contain passwords: `Debug` leaves them out.
    pub urls: Vec<String>,
    /// One that is further behind is not used.
    pub max_lag: Duration,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.urls.len();
        f.debug_struct("Replicas").field("count", &count).field("max_lag", &self.max_lag).finish()
    }
}

pub(super) fn replicas(
    urls: Option<String>,
    max_lag: Option<String>,
    has_postgres: bool,
    problems: &mut Problems,
) -> Replicas {
    const VARIABLE: &str = "DATABASE_READ_URLS";
    let urls = parse::list(urls);
    let seconds = MAX_LAG.read(max_lag, problems);
    if !urls.is_empty() && !has_postgres {
        let text = "SQLite has no replicas: set DATABASE_URL to the PostgreSQL server that they follow, or unset this";
        problems.add(VARIABLE, text.to_owned());
    }
    // The URLs may contain passwords, so the messages name their places.
    for (n, url) in urls.iter().enumerate().map(|(n, url)| (n + 1, url)) {
        let is_valid = is_postgres(url) && url::Url::parse(url).is_ok();
        if !is_valid {
            problems.add(VARIABLE, format!("URL {n} is invalid: write postgres://USER:PASSWORD@HOST/NAME"));
        } else if urls.iter().take(n - 1).any(|other| other == url) {
            problems.add(VARIABLE, format!("URL {n} is there twice: write each replica once"));
        }
    }
    if urls.len() > MAX_REPLICAS {
        problems.add(VARIABLE, format!("it names {} replicas; write at most {MAX_REPLICAS}", urls.len()));
    }
    Replicas { urls, max_lag: Duration::from_secs(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_need_postgres_and_valid_urls() {
        let check = |urls: &str, lag: Option<&str>, has_postgres| {
            let mut problems = Problems::default();
            let lag = lag.map(str::to_owned);
            let found = replicas(Some(urls.to_owned()), lag, has_postgres, &mut problems);
            (found, problems.into_result(()).err().map_or_else(String::new, |error| error.to_string()))
        };
        let (found, problems) = check("postgres://a/x, postgresql://b/x", None, true);
        assert_eq!((found.urls.len(), found.max_lag, &*problems), (2, Duration::from_secs(10), ""));
        assert!(check("postgres://a/x", None, false).1.contains("SQLite has no replicas"));
        assert_eq!(check("", None, false).1, "");
        for bad in ["mysql://me:hunter2@a/x", "a/x", "postgres://me:hunter2@:x"] {
            let problems = check(bad, None, true).1;
            assert!(problems.contains("URL 1 is invalid") && !problems.contains("hunter2"), "{problems}");
        }
        assert!(check("postgres://a/x,postgres://a/x", None, true).1.contains("URL 2 is there twice"));
        assert_eq!(check("", Some("3"), true).1, "");
        for bad in ["2", "301", "x"] {
            assert!(check("", Some(bad), true).1.contains("from 3 to 300"), "{bad}");
        }
        let many: Vec<String> = (0..=MAX_REPLICAS).map(|n| format!("postgres://h{n}/x")).collect();
        assert!(check(&many.join(","), None, true).1.contains("at most 16"));
        let secret = check("postgres://me:hunter2@a/x", None, true).0;
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
