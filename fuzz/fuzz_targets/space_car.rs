#![no_main]

use belvedere_protocol::atproto::record;
use belvedere_protocol::spaces::r10::{Export, SpaceCar};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(repo) = SpaceCar::read(data.to_vec().into()) else { return };
    for (_, cid) in repo.entries() {
        if let Ok(json) = repo.json(*cid)
            && let Ok(inspected) = record::inspect(&json)
        {
            assert!(inspected.cid.is_err() || inspected.cid == Ok(*cid));
        }
    }
    let export = Export::new(repo.commit(), repo.entries().to_vec());
    let read = SpaceCar::read(export.head().to_vec().into()).expect("an export is a CAR");
    assert_eq!(read.entries(), repo.entries());
});
