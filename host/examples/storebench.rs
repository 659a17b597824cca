use belvedere::atproto::*;
use belvedere::clock::Timestamp;
use belvedere::records::{Query, page, render};
use belvedere::store::{Db, index::*, records};
use bytes::Bytes;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(") ").next().unwrap().split(' ').collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
fn pgcpu() -> f64 {
    let mut t = 0.0;
    for e in std::fs::read_dir("/proc").unwrap().flatten() {
        let p = e.path();
        if let Ok(c) = std::fs::read_to_string(p.join("comm")) {
            if c.trim() == "postgres" {
                if let Ok(s) = std::fs::read_to_string(p.join("stat")) {
                    let f: Vec<&str> = s.rsplit(") ").next().unwrap().split(' ').collect();
                    t += (f[11].parse::<f64>().unwrap()
                        + f[12].parse::<f64>().unwrap()
                        + f[13].parse::<f64>().unwrap()
                        + f[14].parse::<f64>().unwrap())
                        / 100.0;
                }
            }
        }
    }
    t
}
async fn timed<F: std::future::Future<Output = usize>>(name: &str, f: F) {
    let (c, p, w) = (cpu(), pgcpu(), std::time::Instant::now());
    let n = f.await;
    let (c, p, w) = (cpu() - c, pgcpu() - p, w.elapsed().as_secs_f64());
    println!(
        "{name:28} n={n:7} wall={w:.2}s cpu={c:.2}s pg={p:.2}s  {:.0}/cpu-s  {:.0}/all-cpu-s",
        n as f64 / c,
        n as f64 / (c + p)
    );
}
#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let size: usize = std::env::args().nth(2).map_or(500, |s| s.parse().unwrap());
    let db = Db::open(&url, 4).await.unwrap();
    db.migrate().await.unwrap();
    let n = 100_000usize;
    let note = Nsid::try_from("com.example.note").unwrap();
    let dids: Vec<Did> =
        (0..2000).map(|n| Did::try_from(format!("did:plc:{n:024}").as_str()).unwrap()).collect();
    let make = |rev: u64, refs: bool| -> Vec<Change> {
        (0..n).map(|i| { let ts = Tid::new(1_700_000_000_000_000 + i as u64 * 1000, 5).unwrap(); Change::Upsert(Upsert { did: dids[i * 7919 % 2000].clone(), collection: note.clone(), rkey: RecordKey::try_from(ts.to_string().as_str()).unwrap(), rev: Tid::new(1_700_000_000_000_000 + rev + i as u64, 0).unwrap(), cid: Some(Cid::compute(belvedere_codec(), format!("{i}").as_bytes())), cid_verified: true, record: Bytes::from(format!(r#"{{"$type":"com.example.note","text":"{}","createdAt":"2024-01-01T00:00:00.000Z","n":{i},"reply":{{"root":{{"uri":"at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/com.example.note/3jzfcijpj2z2a","cid":"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}}}}}}"#, "x".repeat(170))), refs: if refs { vec![format!("at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/com.example.note/{}", i % 1000)] } else { vec![] } }) }).collect()
    };
    let run = async |changes: Vec<Change>| {
        let len = changes.len();
        let batches: Vec<Batch> = changes
            .chunks(size)
            .enumerate()
            .map(|(i, c)| Batch {
                changes: c.to_vec(),
                now: Timestamp(i as i64),
                cursor: Some(StreamCursor { source: "j".into(), cursor: i as i64 }),
                ..Default::default()
            })
            .collect();
        (len, batches)
    };
    let go = async |b: &[Batch]| {
        for b in b {
            apply(&db, b).await.unwrap();
        }
    };
    let (len, b) = run(make(0, false)).await;
    timed("insert, no refs", async {
        go(&b).await;
        len
    })
    .await;
    timed("replay (all stale)", async {
        go(&b).await;
        len
    })
    .await;
    let (len, b) = run(make(1_000_000, false)).await;
    timed("update, no refs", async {
        go(&b).await;
        len
    })
    .await;
    records::delete_collection(&db, &note).await.unwrap();
    let (len, b) = run(make(2_000_000, true)).await;
    timed("insert, 1 ref", async {
        go(&b).await;
        len
    })
    .await;
    let (len, b) = run(make(3_000_000, true)).await;
    timed("update, 1 ref", async {
        go(&b).await;
        len
    })
    .await;
    let q = Query::of(note.clone());
    timed("list 20 + body", async {
        let mut s = 0;
        for _ in 0..20_000 {
            let p = page::read(&db, &q).await.unwrap();
            s += render::list_body(&p, |_| None).len();
        }
        assert!(s > 0);
        20_000
    })
    .await;
    let qd = Query { did: Some(dids[7].clone()), ..q.clone() };
    timed("list 20 of did + body", async {
        for _ in 0..20_000 {
            let p = page::read(&db, &qd).await.unwrap();
            assert!(render::list_body(&p, |_| None).len() > 10);
        }
        20_000
    })
    .await;
    let uris: Vec<RecordUri> = b
        .iter()
        .flat_map(|b| &b.changes)
        .take(30_000)
        .map(|c| match c {
            Change::Upsert(u) => {
                RecordUri { did: u.did.clone(), collection: u.collection.clone(), rkey: u.rkey.clone() }
            }
            _ => unreachable!(),
        })
        .collect();
    timed("get + body", async {
        for u in &uris {
            let r = records::get(&db, u).await.unwrap().unwrap();
            assert!(render::single_body(&r, None).len() > 10);
        }
        uris.len()
    })
    .await;
    let mut handles = vec![];
    let uris = std::sync::Arc::new(uris);
    timed("get x4 concurrent", async {
        for t in 0..4 {
            let (db, uris) = (db.clone(), uris.clone());
            handles.push(tokio::spawn(async move {
                for u in uris.iter().skip(t).step_by(4) {
                    records::get(&db, u).await.unwrap().unwrap();
                }
            }));
        }
        for h in handles {
            h.await.unwrap();
        }
        uris.len()
    })
    .await;
    let f = belvedere::records::Filter::from_json(&serde_json::json!({"field":"n","op":"<","value":50_000}))
        .unwrap();
    let qf = Query { filter: Some(f), limit: 20, ..q.clone() };
    timed("filter n<50000", async {
        for _ in 0..5 {
            page::read(&db, &qf).await.unwrap();
        }
        5
    })
    .await;
    let qs = Query {
        sort: Some(belvedere::records::Sort::parse("n", belvedere::records::Direction::Asc).unwrap()),
        ..q.clone()
    };
    timed("sort by n over 100k", async {
        for _ in 0..5 {
            assert_eq!(page::read(&db, &qs).await.unwrap().rows.len(), 20);
        }
        5
    })
    .await;
    timed("count", async {
        for _ in 0..20 {
            assert_eq!(records::count(&db, &note, None).await.unwrap(), 100_000);
        }
        20
    })
    .await;
    timed("delete_collection", async { records::delete_collection(&db, &note).await.unwrap() as usize })
        .await;
    db.close().await;
}
fn belvedere_codec() -> shrike::cbor::Codec {
    shrike::cbor::Codec::Drisl
}
