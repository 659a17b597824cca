//! Kills the server at random moments of jobs, which it then resumes: the index equals the network after each.
//!
//! `BELVEDERE_KILLS` is the number of rounds, `BELVEDERE_SEED` repeats a run (docs/contributing.md).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use belvedere_standins::parameters;
use belvedere_standins::repos::Site;
use tokio::sync::watch;

use super::*;

const ROUNDS: usize = 10;

const REPOS: usize = 12;

/// About as many requests as a job makes, so that some rounds end without a kill.
const REQUESTS: usize = 60;

/// A job is killed once, and less often than this again.
const MAX_MORE_KILLS: u64 = 3;

/// Counts the requests to all servers of a network.
struct Requests {
    count: Arc<AtomicUsize>,
    reached: watch::Receiver<usize>,
}

impl Requests {
    fn of(network: &RepoNetwork) -> Self {
        let (count, (sender, reached)) = (Arc::<AtomicUsize>::default(), watch::channel(0));
        for site in [Site::Relay, Site::Pds(0), Site::Pds(1), Site::Pds(2), Site::Pds(3)] {
            let (count, sender) = (Arc::clone(&count), sender.clone());
            network.faults(site, move |_| {
                sender.send_replace(1 + count.fetch_add(1, Ordering::SeqCst));
                None
            });
        }
        Self { count, reached }
    }

    /// Waits for `more` requests.
    async fn wait_for(&mut self, more: usize) {
        let enough = self.count.load(Ordering::SeqCst) + more;
        self.reached.wait_for(|count| *count >= enough).await.expect("the network runs");
    }
}

/// Changes a fifth of the records. The stream does not say so.
fn change(network: &RepoNetwork, random: &Random, round: usize) {
    let mut gone = HashSet::new();
    let existing: Vec<_> = network.records(NOTES).into_keys().collect();
    for _ in 0..existing.len() / 5 {
        let uri = &existing[random.u64() as usize % existing.len()];
        let (did, rkey) = uri["at://".len()..].split_once(&format!("/{NOTES}/")).expect("a record");
        let (rkey, note) = match random.u64() % 3 {
            0 if gone.insert(uri) => {
                network.delete(did, NOTES, rkey);
                continue;
            }
            1 => (format!("{rkey}{}", round % 7), note(&format!("new {round}"))),
            _ => (rkey.to_owned(), note(&format!("changed {round}"))),
        };
        network.put(did, NOTES, &rkey, note);
    }
}

in_both_scenes!(a_job_that_is_killed_at_any_moment_ends_with_an_equal_index);

async fn a_job_that_is_killed_at_any_moment_ends_with_an_equal_index(mut scene: Scene) {
    let seed = parameters::number("BELVEDERE_SEED").unwrap_or_else(|| Random::system().u64());
    let rounds = parameters::number("BELVEDERE_KILLS").map_or(ROUNDS, |rounds| rounds as usize);
    let random = Random::seeded(seed);
    for n in 0..REPOS {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 10 + 37 * (n % 9));
    }
    let mut requests = Requests::of(&scene.network);
    let mut kills = 0;
    for round in 0..rounds {
        change(&scene.network, &random, round);
        let id = scene.create(Some(NOTES), None).await;
        for _ in 0..=random.u64() % MAX_MORE_KILLS {
            let moment = random.u64() as usize % REQUESTS;
            let is_killed = tokio::select! {
                () = requests.wait_for(moment) => true,
                _ = scene.wait_for_status(&id, "completed") => false,
            };
            if !is_killed {
                break;
            }
            kills += 1;
            scene.server.kill();
            scene.server.start_again().await;
        }
        let job = scene.wait_for_status(&id, "completed").await;
        let at = format!("round {round} of seed {seed}");
        assert_eq!((job.total_repos, job.processed_repos), (Some(12), Some(12)), "{at}");
        assert_eq!(scene.errors(&id).await, BTreeMap::new(), "{at}");
        let (index, network) = (scene.index(NOTES).await, scene.network.records(NOTES));
        assert!(index == network, "{at}: {} records instead of {}", index.len(), network.len());
    }
    assert!(kills >= rounds / 2, "{kills} kills in {rounds} rounds of seed {seed}");
}
