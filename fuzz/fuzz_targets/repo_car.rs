#![no_main]

use belvedere_protocol::atproto::{Nsid, RepoCar, record};
use belvedere_standins::cars;
use libfuzzer_sys::fuzz_target;

fn check(car: Vec<u8>) {
    let collection = Nsid::try_from(cars::SCRIPTED_COLLECTION).expect("an NSID");
    let Ok(repo) = RepoCar::read(car.into()) else { return };
    let Ok(lists) = repo.records(&[collection]) else { return };
    assert!(lists[0].is_sorted_by(|a, b| a.0.as_str() < b.0.as_str()));
    for (_, cid) in &lists[0] {
        if let Ok(json) = repo.json(*cid)
            && let Ok(inspected) = record::inspect(&json)
        {
            assert!(inspected.cid.is_err() || inspected.cid == Ok(*cid));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    check(data.to_vec());
    // With the right CIDs, which random bytes never have.
    check(cars::scripted(data));
});
