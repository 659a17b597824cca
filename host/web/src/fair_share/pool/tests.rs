use std::sync::Mutex as StdMutex;

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds =
    Bounds { permits: 2, per_tenant: 2, waiting: 8, waiting_per_tenant: 6, max_wait: Duration::from_secs(5) };

fn tenant(name: &str) -> Tenant {
    Tenant::client(name)
}

#[tokio::test(start_paused = true)]
async fn a_tenant_waits_one_round_however_many_calls_another_makes() {
    let pool = FairPool::new("test", BOUNDS);
    let order = StdMutex::new(String::new());
    let call = async |name: &str| {
        let permit = pool.enter(&tenant(name)).await.unwrap();
        order.lock().unwrap().push_str(name);
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(permit);
    };
    tokio::join!(
        biased;
        call("a"), call("a"), call("a"), call("a"), call("a"), call("a"),
        call("b"), call("b"),
    );
    // Both permits are a's at first. Two of the next four are b's.
    assert_eq!(order.into_inner().unwrap(), "aaabbaaa");
    assert!(pool.0.lock().tenants.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_tenant_does_not_get_all_permits() {
    let pool = FairPool::new("test", Bounds { per_tenant: 1, ..BOUNDS });
    let held = pool.enter(&tenant("a")).await.unwrap();
    assert_eq!(pool.try_enter(&tenant("a")).unwrap_err(), Full::Tenant);
    let other = pool.try_enter(&tenant("b")).unwrap();
    assert_eq!(pool.try_enter(&tenant("c")).unwrap_err(), Full::Pool);
    drop((held, other));
    assert!(pool.try_enter(&tenant("a")).is_ok());
}

#[test]
fn permits_that_were_absorbed_are_released_together() {
    let pool = FairPool::new("test", Bounds { permits: 10, per_tenant: 5, ..BOUNDS });
    let a = tenant("a");
    let mut permit = pool.try_enter(&a).unwrap();
    permit.absorb(pool.try_enter_many(&a, 3).unwrap());
    assert_eq!(pool.used(), 4);
    assert_eq!(pool.try_enter_many(&a, 2).unwrap_err(), Full::Tenant);
    drop(permit);
    assert_eq!(pool.used(), 0);
    assert!(pool.0.lock().tenants.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_in_number_and_time() {
    let pool = FairPool::new(
        "test",
        Bounds { permits: 1, per_tenant: 1, waiting: 2, waiting_per_tenant: 1, ..BOUNDS },
    );
    let held = pool.enter(&tenant("a")).await.unwrap();
    let (a, b) = (tenant("a"), tenant("b"));
    let (first, second, third, c) = tokio::join!(
        biased;
        pool.enter(&a),
        pool.enter(&a),
        pool.enter(&b),
        async { pool.enter(&tenant("c")).await },
    );
    assert_eq!(first.unwrap_err(), Full::Timeout);
    assert_eq!(second.unwrap_err(), Full::Tenant);
    assert_eq!(third.unwrap_err(), Full::Timeout);
    assert_eq!(c.unwrap_err(), Full::Pool);
    assert_eq!(pool.0.lock().waiting, 0);
    drop(held);
    assert!(pool.0.lock().tenants.is_empty());
}

#[tokio::test]
async fn a_dropped_call_releases_its_permit() {
    let pool = FairPool::new("test", Bounds { permits: 1, ..BOUNDS });
    let (a, b) = (tenant("a"), tenant("b"));
    let held = pool.enter(&a).await.unwrap();
    let mut waiting = Box::pin(pool.enter(&b));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // The permit is granted, but the waiting call is not polled.
    drop(held);
    assert_eq!(pool.0.lock().used, 1);
    drop(waiting);
    assert_eq!(pool.0.lock().used, 0);
    assert!(pool.try_enter(&a).is_ok());
}

#[tokio::test(start_paused = true)]
async fn small_calls_do_not_overtake_a_large_one_forever() {
    let bounds = Bounds { permits: 4, per_tenant: 4, waiting: 16, waiting_per_tenant: 16, ..BOUNDS };
    let pool = FairPool::new("test", bounds);
    let (a, b) = (tenant("a"), tenant("b"));
    let mut held = pool.enter_many(&a, 3).await.unwrap();
    let mut large = Box::pin(pool.enter_many(&b, 3));
    assert!(futures_util::poll!(&mut large).is_pending());
    // One permit is free, and it is reserved for the waiting call.
    assert!(pool.is_full_for(&a));
    assert_eq!(pool.try_enter(&a).unwrap_err(), Full::Pool);
    held.shrink_to(1);
    let large = large.await.unwrap();
    assert_eq!(pool.0.lock().used, 4);
    // A call larger than the share takes the whole share.
    let mut all = Box::pin(pool.enter_many(&a, 100));
    assert!(futures_util::poll!(&mut all).is_pending());
    drop((held, large));
    let all = all.await.unwrap();
    assert_eq!((pool.0.lock().used, all.permits), (4, 4));
    drop(all);
    assert!(pool.0.lock().tenants.is_empty());
}

#[tokio::test]
async fn dropping_a_large_call_unblocks_the_others() {
    let pool = FairPool::new(
        "test",
        Bounds { permits: 4, per_tenant: 4, waiting: 16, waiting_per_tenant: 16, ..BOUNDS },
    );
    let (a, b, c) = (tenant("a"), tenant("b"), tenant("c"));
    let _held = pool.enter_many(&a, 2).await.unwrap();
    let mut large = Box::pin(pool.enter_many(&b, 4));
    assert!(futures_util::poll!(&mut large).is_pending());
    let mut small = Box::pin(pool.enter(&c));
    assert!(futures_util::poll!(&mut small).is_pending());
    drop(large);
    assert!(futures_util::poll!(&mut small).is_ready());
}

/// Two permits, of which a tenant's share is one.
fn lending() -> FairPool {
    FairPool::new("test", Bounds { per_tenant: 1, ..BOUNDS })
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_is_alone_uses_what_no_other_needs() {
    let pool = lending();
    let (a, b) = (tenant("a"), tenant("b"));
    let first = pool.enter_recallable(&a).await.unwrap();
    // A call that can't be stopped stays within the share.
    assert_eq!(pool.try_enter(&a).unwrap_err(), Full::Tenant);
    let second = pool.enter_recallable(&a).await.unwrap();
    let mut third = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut third).is_pending());
    // A call that waits gets what becomes free, as long as the tenant is alone.
    drop(first);
    let third = third.await.unwrap();
    assert_eq!(pool.used(), 2);
    let mut other = Box::pin(pool.enter(&b));
    assert!(futures_util::poll!(&mut other).is_pending());
    // The latest call gives its permit back, and the other one keeps its own.
    third.recalled().await;
    assert!(futures_util::poll!(Box::pin(second.recalled())).is_pending());
    let mut fourth = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut fourth).is_pending());
    drop(third);
    let other = other.await.unwrap();
    assert!(futures_util::poll!(&mut fourth).is_pending());
    // The tenant is alone again.
    drop(other);
    let fourth = fourth.await.unwrap();
    assert_eq!(pool.used(), 2);
    drop((second, fourth));
    assert!(pool.0.lock().tenants.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_looked_at_again_when_a_visit_is_over() {
    let pool = lending();
    let (a, b) = (tenant("a"), tenant("b"));
    let _first = pool.enter_recallable(&a).await.unwrap();
    let began = Instant::now();
    pool.visit(&b);
    let mut second = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut second).is_pending());
    tokio::time::sleep(Duration::from_millis(600)).await;
    pool.visit(&b);
    // No permit is released meanwhile, and no other tenant comes.
    let _second = second.await.unwrap();
    assert_eq!((pool.used(), began.elapsed()), (2, Duration::from_millis(1_600)));
}

#[tokio::test(start_paused = true)]
async fn a_visit_of_another_tenant_ends_what_a_tenant_has_beyond_its_share() {
    let pool = lending();
    let (a, b) = (tenant("a"), tenant("b"));
    pool.visit(&a);
    let first = pool.enter_recallable(&a).await.unwrap();
    let second = pool.enter_recallable(&a).await.unwrap();
    let mut third = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut third).is_pending());
    pool.visit(&b);
    pool.visit(&a);
    second.recalled().await;
    drop(second);
    assert!(futures_util::poll!(&mut third).is_pending());
    // The share itself stays, and the rest comes back after the visit.
    drop(first);
    let third = third.await.unwrap();
    let mut fourth = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut fourth).is_pending());
    drop(fourth);
    tokio::time::advance(Duration::from_secs(1)).await;
    let fourth = pool.enter_recallable(&a).await.unwrap();
    assert_eq!(pool.used(), 2);
    drop((third, fourth));
}

#[tokio::test(start_paused = true)]
async fn what_waited_while_alone_does_not_overtake_another_tenant() {
    let pool = lending();
    let (a, b) = (tenant("a"), tenant("b"));
    let held = [pool.enter_recallable(&a).await.unwrap(), pool.enter_recallable(&a).await.unwrap()];
    let mut waiting = Box::pin(pool.enter_recallable(&a));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let mut other = Box::pin(pool.enter(&b));
    assert!(futures_util::poll!(&mut other).is_pending());
    let [first, second] = held;
    drop(second);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert!(futures_util::poll!(&mut other).is_ready());
    drop(first);
    assert!(futures_util::poll!(&mut waiting).is_ready());
}

proptest! {
    /// No limit is exceeded, no permit is lost, and no call waits while its permits are free.
    #[test]
    fn random_histories_keep_the_bounds(steps in proptest::collection::vec((0_u8..5, 0_u8..3, 0_usize..8), 1..200)) {
        let bounds = Bounds { permits: 5, per_tenant: 3, waiting: 8, waiting_per_tenant: 5, max_wait: Duration::MAX };
        let pool = FairPool::new("test", bounds);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for (what, who, which) in steps {
            let tenant = tenant(&who.to_string());
            match what {
                0 | 1 => {
                    let wanted = match what {
                        0 => Wanted::permits(which % 3 + 1),
                        _ => Wanted { permits: 1, recall: Some(Recall::default()) },
                    };
                    match pool.0.take_or_enqueue(&tenant, &wanted) {
                        Ok(Admission::Granted) => held.push(pool.permit(&tenant, wanted)),
                        Ok(Admission::Queued(id, granted)) => waiting.push((tenant, wanted, id, granted)),
                        Err(_) => {}
                    }
                }
                2 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                3 if !waiting.is_empty() => {
                    let (tenant, wanted, id, _granted) = waiting.swap_remove(which % waiting.len());
                    drop(Waiter { shared: &pool.0, tenant: &tenant, wanted: &wanted, id, done: false });
                }
                4 if !held.is_empty() => {
                    let at = which % held.len();
                    held[at].shrink_to(1);
                }
                _ => {}
            }
            waiting.retain_mut(|(tenant, wanted, _, granted)| {
                let is_granted = granted.try_recv().is_ok();
                if is_granted {
                    held.push(pool.permit(tenant, wanted.clone()));
                }
                !is_granted
            });
            let state = pool.0.lock();
            prop_assert_eq!(state.used, held.iter().map(|permit| permit.permits).sum::<usize>());
            prop_assert_eq!(state.waiting, waiting.iter().map(|(_, wanted, ..)| wanted.permits).sum::<usize>());
            prop_assert!(state.used <= bounds.permits && state.waiting <= bounds.waiting);
            prop_assert!(state.round_robin.len() <= state.tenants.len());
            // The first tenant in the round robin waits for more permits than are free. Tenants outside it wait for
            // their own calls.
            if let Some(first) = state.round_robin.front() {
                let first = state.tenants[first].queue.front().map_or(0, |waiting| waiting.permits);
                prop_assert!(first > 0 && state.used + first > bounds.permits);
            }
            for (tenant, share) in &state.tenants {
                // Only calls that can be recalled use more than the share, and are when another tenant waits for them.
                let surplus = share.used.saturating_sub(bounds.per_tenant);
                prop_assert!(surplus <= share.recallable.len());
                if state.round_robin.iter().any(|other| other != tenant) {
                    let recalled = share.recallable.iter().filter(|recall| recall.is_cancelled()).count();
                    prop_assert!(recalled >= surplus);
                }
                prop_assert_eq!(share.in_round_robin, share.fits_share(state.tenants.len() == 1, &bounds));
                prop_assert_eq!(share.in_round_robin, state.round_robin.contains(tenant));
                let queued: usize = share.queue.iter().map(|waiting| waiting.permits).sum();
                prop_assert_eq!(share.queued, queued);
                prop_assert!(queued <= bounds.waiting_per_tenant);
            }
        }
        drop(held);
        for (tenant, wanted, id, _granted) in waiting {
            drop(Waiter { shared: &pool.0, tenant: &tenant, wanted: &wanted, id, done: false });
        }
        prop_assert!(pool.0.lock().tenants.is_empty());
    }
}
