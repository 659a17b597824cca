//! Queues by host, on paused time.

use super::super::failure::ErrorKind;
use super::*;

const BOUNDS: Bounds = Bounds { hosts: 2, units_per_host: 2, max_queued: 5 };
const MAX_FAILURES: u32 = 3;

fn hosts(units: &[(&str, u32)]) -> Hosts<u32> {
    let mut hosts = Hosts::new(BOUNDS);
    for (name, unit) in units {
        assert!(matches!(hosts.add(name, *unit), Added::Queued));
    }
    hosts
}

fn failure() -> Failure {
    Failure::new(ErrorKind::Timeout, "timed out")
}

/// Starts everything that may start.
fn start(hosts: &mut Hosts<u32>) -> Vec<(Ticket, u32)> {
    std::iter::from_fn(|| hosts.next(Instant::now())).map(Task::into_parts).collect()
}

fn units(started: &[(Ticket, u32)]) -> Vec<u32> {
    started.iter().map(|(_, unit)| *unit).collect()
}

#[tokio::test(start_paused = true)]
async fn hosts_and_units_per_host_are_bounded() {
    let mut hosts = hosts(&[("c", 4), ("a", 1), ("a", 2), ("a", 3), ("b", 5), ("b", 6)]);
    let mut running = start(&mut hosts);
    assert_eq!(units(&running), [1, 2, 5, 6], "two hosts, two units of each, the most work first");
    // More hosts than permits: the next host begins when another has no more work.
    hosts.succeeded(&running.remove(3).0, 1);
    assert!(start(&mut hosts).is_empty());
    hosts.succeeded(&running.remove(2).0, 1);
    assert_eq!(units(&start(&mut hosts)), [4]);
    hosts.succeeded(&running[0].0, 1);
    assert_eq!(units(&start(&mut hosts)), [3]);
    assert!(!hosts.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_failing_host_cools_down_while_others_work() {
    let mut hosts = hosts(&[("bad", 1), ("good", 2)]);
    let mut wait = Duration::from_millis(500);
    for round in 0..2 {
        let running = start(&mut hosts);
        let (bad, unit) = running.iter().find(|(ticket, _)| &*ticket.host == "bad").unwrap();
        let before = Instant::now();
        assert!(hosts.failed(bad, &failure(), Some(*unit), 0, MAX_FAILURES, before).is_empty());
        assert_eq!(hosts.next_cooled(), Some(before + wait), "round {round}");
        assert!(matches!(hosts.add("good", 3), Added::Queued));
        assert!(units(&start(&mut hosts)).iter().all(|unit| *unit == 3), "only the other host");
        tokio::time::advance(wait).await;
        wait *= 2;
    }
    // A success starts over.
    let running = start(&mut hosts);
    hosts.succeeded(&running[0].0, 1);
    assert!(matches!(hosts.add("bad", 4), Added::Queued));
    let running = start(&mut hosts);
    hosts.failed(&running[0].0, &failure(), Some(4), 0, MAX_FAILURES, Instant::now());
    assert_eq!(hosts.next_cooled(), Some(Instant::now() + FIRST_COOLDOWN));
}

#[tokio::test(start_paused = true)]
async fn the_servers_wish_prevails_over_a_shorter_cooldown_and_is_capped() {
    for (wait, expected) in [(30, 30), (0, 0), (9_999, 120)] {
        let mut hosts = hosts(&[("a", 1)]);
        let running = start(&mut hosts);
        let failure = Failure { wait: Some(Duration::from_secs(wait)), ..failure() };
        hosts.failed(&running[0].0, &failure, Some(1), 0, MAX_FAILURES, Instant::now());
        let expected = Duration::from_secs(expected).max(FIRST_COOLDOWN);
        assert_eq!(hosts.next_cooled(), Some(Instant::now() + expected));
    }
}

#[tokio::test(start_paused = true)]
async fn units_that_fail_together_are_one_failure_of_the_host() {
    let mut hosts = hosts(&[("a", 1), ("a", 2)]);
    let running = start(&mut hosts);
    for (ticket, unit) in running {
        hosts.failed(&ticket, &failure(), Some(unit), 0, MAX_FAILURES, Instant::now());
    }
    assert_eq!(hosts.next_cooled(), Some(Instant::now() + FIRST_COOLDOWN));
    tokio::time::advance(FIRST_COOLDOWN).await;
    assert_eq!(units(&start(&mut hosts)), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_host_loses_all_its_units_in_one_step_and_a_success_revives_it() {
    let mut hosts = hosts(&[("dead", 1), ("dead", 2), ("dead", 3), ("dead", 4), ("dead", 5)]);
    assert!(matches!(hosts.add("dead", 6), Added::Left), "more than are kept in memory");
    let slow = hosts.next(Instant::now()).unwrap().into_parts().0;
    let mut lost = Vec::new();
    for _ in 0..3 {
        let (ticket, unit) = hosts.next(Instant::now()).unwrap().into_parts();
        lost = hosts.failed(&ticket, &failure(), Some(unit), 0, MAX_FAILURES, Instant::now());
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    lost.sort_unstable();
    assert_eq!(lost, [2, 3, 4, 5]);
    assert!(matches!(hosts.add("dead", 7), Added::GivenUp(7, _)));
    assert_eq!(hosts.given_up("dead"), Some(failure()));
    assert!(hosts.next(Instant::now()).is_none() && hosts.next_drained().is_none());
    hosts.succeeded(&slow, 1);
    assert_eq!(hosts.next_drained().as_deref(), Some("dead"), "the unit in the database is left");
    assert!(matches!(hosts.add("dead", 7), Added::Queued), "it responded");
}

#[tokio::test(start_paused = true)]
async fn units_beyond_memory_are_loaded_when_those_in_memory_are_done() {
    let mut hosts = Hosts::new(BOUNDS);
    hosts.register("a");
    hosts.register("a");
    assert!(matches!(hosts.add("a", 9), Added::Left), "it is in the database too");
    assert!(!hosts.is_idle());
    assert_eq!(hosts.next_drained().as_deref(), Some("a"));
    assert!(matches!(hosts.add("a", 1), Added::Queued));
    hosts.register("a");
    assert!(hosts.next_drained().is_none(), "one unit is still in memory");
    let running = start(&mut hosts);
    hosts.succeeded(&running[0].0, 1);
    assert_eq!(hosts.next_drained().as_deref(), Some("a"));
    assert!(hosts.is_idle());
}

#[tokio::test(start_paused = true)]
async fn work_that_arrives_as_the_last_unit_ends_is_not_lost_with_one_permit() {
    let mut hosts = Hosts::new(Bounds { hosts: 1, units_per_host: 1, max_queued: 5 });
    for (name, unit) in [("a", 1), ("a", 2), ("b", 3)] {
        assert!(matches!(hosts.add(name, unit), Added::Queued));
    }
    let mut seen = Vec::new();
    let mut added = 0;
    while let Some((ticket, unit)) = start(&mut hosts).pop() {
        seen.push(unit);
        hosts.succeeded(&ticket, 1);
        // Between the end of a unit and the start of the next one.
        if added < 3 {
            added += 1;
            assert!(matches!(hosts.add("a", 10 + added), Added::Queued));
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 11, 12, 13]);
    assert!(hosts.is_idle());
}

#[tokio::test(start_paused = true)]
async fn rate_limits_are_waited_out_and_never_count_as_failures() {
    let limited = Failure::new(ErrorKind::RateLimited, "429");
    let mut hosts = hosts(&[("edge", 1)]);
    // A window of 90 seconds: more refusals than failures that a dead host has.
    let began = Instant::now();
    let mut refusals = 0;
    while began.elapsed() < Duration::from_secs(90) {
        let running = start(&mut hosts);
        let [(ticket, unit)] = &*running else { panic!("the host is cooling or was given up") };
        assert!(hosts.failed(ticket, &limited, Some(*unit), 0, MAX_FAILURES, Instant::now()).is_empty());
        refusals += 1;
        tokio::time::advance(hosts.next_cooled().unwrap() - Instant::now()).await;
    }
    assert!(refusals > MAX_FAILURES, "{refusals}");
    // One that refuses for ever is given up, unless it gives enough between the refusals.
    for (given, is_given_up) in [(300, false), (0, true)] {
        for _ in 0..2_000 {
            let Some((ticket, unit)) = hosts.next(Instant::now()).map(Task::into_parts) else { break };
            hosts.failed(&ticket, &limited, Some(unit), given, MAX_FAILURES, Instant::now());
            let Some(cooled) = hosts.next_cooled() else { break };
            tokio::time::advance(cooled - Instant::now()).await;
        }
        assert_eq!(hosts.given_up("edge").is_some(), is_given_up);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_gives_little_between_long_waits_is_given_up_however_many_accounts_it_has() {
    let wait = Some(Duration::from_mins(5));
    let limited = Failure { wait, ..Failure::new(ErrorKind::RateLimited, "429") };
    for accounts in [1, 1_000] {
        let (mut hosts, began) = (Hosts::new(BOUNDS), Instant::now());
        let mut given_up = None;
        for unit in (0..accounts).cycle().take(1_000) {
            // Each comes when the one before is done, as from the queue of look-ups.
            if let Added::GivenUp(_, failure) = hosts.add("hostile", unit) {
                given_up = Some(failure);
                break;
            }
            let (ticket, unit) = hosts.next(Instant::now()).unwrap().into_parts();
            hosts.failed(&ticket, &limited, Some(unit), 0, MAX_FAILURES, Instant::now());
            let Some(cooled) = hosts.next_cooled() else { continue };
            tokio::time::advance(cooled - Instant::now()).await;
            // A repo without records.
            let (ticket, _) = hosts.next(Instant::now()).unwrap().into_parts();
            hosts.succeeded(&ticket, 2);
        }
        assert_eq!(given_up, Some(limited.clone()));
        assert!(began.elapsed() < Duration::from_mins(140), "{accounts}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_unit_of_an_earlier_round_has_given_ends_a_row_of_refusals() {
    let wait = Some(Duration::from_mins(5));
    let limited = Failure { wait, ..Failure::new(ErrorKind::RateLimited, "429") };
    let mut hosts = hosts(&[("edge", 1), ("edge", 2)]);
    let began = Instant::now();
    // Far longer than the half hour after which a host that gives nothing is given up.
    while began.elapsed() < Duration::from_mins(90) {
        let running = start(&mut hosts);
        // The first one begins the cooldown; the second one has read a page.
        for (at, (ticket, unit)) in running.into_iter().enumerate() {
            let given = 100 * at as u64;
            let lost = hosts.failed(&ticket, &limited, Some(unit), given, MAX_FAILURES, Instant::now());
            assert!(lost.is_empty(), "after {:?}", began.elapsed());
        }
        tokio::time::advance(hosts.next_cooled().unwrap() - Instant::now()).await;
    }
}
