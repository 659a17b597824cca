//! A model check: PDSs whose lists lie at random, and that don't answer requests for a record as they should, never cost a
//! record that a repo has, and honest ones leave nothing that it lacks.
//!
//! Every step is the answer to a request for a list. The seed is printed, and repeats a run in the environment variable
//! `BELVEDERE_SEED`; `BELVEDERE_HISTORIES` is the number of steps (docs/contributing.md).

use belvedere_standins::parameters;
use belvedere_standins::repos::{Fault, Query, Site};

use super::*;

const STEPS: usize = 10_000;
const ACCOUNTS: usize = 100;
/// Jobs with lying lists for each one with honest lists.
const LYING_JOBS: usize = 4;
const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Below `end`.
fn number(random: &Random, end: usize) -> usize {
    (random.u64() % end as u64) as usize
}

/// A fault of a list. Most pages are short, so that lists have several.
fn lie(random: &Random) -> Fault {
    let limit = 1 + number(random, 4);
    match number(random, 14) {
        0..3 => Fault::IgnoresLimit(limit),
        3 => Fault::IgnoresReverse,
        4..6 => Fault::IgnoresLimitAndReverse(limit),
        6 => Fault::IgnoresCursor,
        7 => Fault::LacksRecord(KEYS[number(random, KEYS.len())]),
        8 => Fault::EmptyPageWithCursor,
        9 => Fault::Unordered,
        10 => Fault::RepeatsRecords,
        11 => Fault::PageBefore,
        12 => Fault::SameCursor,
        _ => Fault::Text(r#"{"records":[]}"#.to_owned()),
    }
}

/// A fault of the answer to a request for a record. None of them says that the repo lacks it. A PDS with failures that
/// pass is waited for, so `failures` are few.
fn wrong_answer(random: &Random, failures: &mut u32) -> Fault {
    if *failures > 0 && number(random, 3) == 0 {
        *failures -= 1;
        return [Fault::rate_limited_for(1), Fault::bare(500)][number(random, 2)].clone();
    }
    match number(random, 3) {
        0 => Fault::WrongRecord,
        1 => Fault::bare(404),
        _ => Fault::refusal("InvalidRequest"),
    }
}

impl Scene {
    /// Changes every repo. The last change is a new version, so that every row of the index is older than the repo.
    fn change(&self, random: &Random) {
        for n in 0..ACCOUNTS {
            let did = account(n);
            for _ in 0..number(random, 4) {
                let key = KEYS[number(random, KEYS.len())];
                if self.network.has(&did, NOTES, key) {
                    self.network.delete(&did, NOTES, key);
                } else {
                    self.network.put(&did, NOTES, key, note(&random.u64().to_string()));
                }
            }
            let key = KEYS[number(random, KEYS.len())];
            self.network.put(&did, NOTES, key, note(&random.u64().to_string()));
        }
    }

    /// Lets the lists of all PDSs lie. Some repos are always listed in the same way, the others differently each time. Every
    /// fourth answer to a request for a record is wrong.
    fn lie(&self, seed: u64) {
        for pds in 0..4 {
            let random = Random::seeded(seed.wrapping_add(pds as u64));
            let mut usual: BTreeMap<String, Fault> = BTreeMap::new();
            // One job, one wait.
            let mut failures = u32::from(seed % 4 == pds as u64);
            self.network.faults(Site::Pds(pds), move |query: &Query| {
                if query.method.ends_with("getRecord") {
                    return (number(&random, 4) == 0).then(|| wrong_answer(&random, &mut failures));
                }
                if !query.method.ends_with("listRecords") {
                    return None;
                }
                let usual = usual.entry(query.did.clone()).or_insert_with(|| lie(&random)).clone();
                match number(&random, 4) {
                    0 => None,
                    1 => Some(lie(&random)),
                    _ => Some(usual),
                }
            });
        }
    }

    /// Lists that the PDSs were asked for.
    fn steps(&self) -> usize {
        let of = |pds| self.network.queries(Site::Pds(pds)).into_iter();
        (0..4).flat_map(of).filter(|query| query.method.ends_with("listRecords")).count()
    }
}

in_both_scenes!(lying_lists_cost_no_record);

async fn lying_lists_cost_no_record(scene: Scene) {
    let seed = parameters::number("BELVEDERE_SEED").unwrap_or_else(|| Random::system().u64());
    let steps = parameters::number("BELVEDERE_HISTORIES").map_or(STEPS, |count| count as usize);
    let random = Random::seeded(seed);
    for n in 0..ACCOUNTS {
        scene.network.account(&account(n), n % 4);
    }
    let (mut removed, mut lying) = (0, 0);
    let mut before = BTreeMap::new();
    while lying < steps {
        let asked = scene.steps();
        for _ in 0..LYING_JOBS {
            scene.change(&random);
            scene.lie(random.u64());
            scene.backfill().await;
            let (after, repos) = (scene.index(NOTES).await, scene.network.records(NOTES));
            let gone: Vec<_> = before.keys().filter(|uri| !after.contains_key(*uri)).collect();
            let lost: Vec<_> = gone.iter().filter(|uri| repos.contains_key(**uri)).collect();
            assert!(lost.is_empty(), "seed {seed}: {lost:?}");
            removed += gone.len();
            before = after;
        }
        lying += scene.steps() - asked;

        scene.network.repair();
        let (id, _) = scene.backfill().await;
        assert_eq!(scene.errors(&id).await, BTreeMap::new(), "seed {seed}");
        scene.assert_equal(NOTES).await;
        before = scene.index(NOTES).await;
    }
    assert!(steps < STEPS || removed > 100, "seed {seed}: lying lists prove something too: {removed}");
}
