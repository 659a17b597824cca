//! Pages of `com.atproto.repo.listRecords`, right and wrong.

use serde_json::{Value, json};

use crate::cars::Records;
use crate::frames::cid_of;
use crate::repos::{Fault, Query, uri};

/// The largest page of records; PDSs have the same.
const MAX_PAGE: usize = 100;

/// A page of records, the highest record keys first. Like real PDSs, it has a cursor unless it is empty.
pub(crate) fn page(records: &Records, query: &Query, fault: Option<&Fault>) -> Value {
    let Query { did, collection, .. } = query;
    let requested = query.cursor.as_deref();
    if matches!(fault, Some(Fault::EmptyPageWithCursor))
        && requested.is_none_or(|cursor| !cursor.ends_with('~'))
    {
        return json!({ "records": [], "cursor": format!("{}~", requested.unwrap_or_default()) });
    }
    let cursor = match fault {
        Some(Fault::Endless | Fault::IgnoresCursor) => None,
        _ => requested.map(|cursor| cursor.trim_end_matches('~')).filter(|cursor| !cursor.is_empty()),
    };
    let limit = match fault {
        Some(Fault::IgnoresLimit(limit) | Fault::IgnoresLimitAndReverse(limit)) => *limit,
        _ => query.limit.min(MAX_PAGE),
    };
    let ignores_reverse = matches!(fault, Some(Fault::IgnoresReverse | Fault::IgnoresLimitAndReverse(_)));
    let all = records.get(collection).into_iter().flatten().rev();
    let below = all.filter(|(rkey, _)| cursor.is_none_or(|cursor| rkey.as_str() < cursor));
    let mut page: Vec<_> = below.collect();
    if let (Some(Fault::PageBefore), Some(cursor)) = (fault, cursor) {
        let from = records.get(collection).into_iter().flatten();
        page = from.filter(|(rkey, _)| rkey.as_str() >= cursor).take(query.limit.min(MAX_PAGE)).collect();
        page.reverse();
    }
    if query.reverse && !ignores_reverse {
        page.reverse();
    }
    page.truncate(limit);
    let last = page.last().map(|(rkey, _)| (*rkey).clone());
    if matches!(fault, Some(Fault::RepeatsRecords)) {
        page = page.into_iter().flat_map(|record| [record, record]).collect();
    }
    if let Some(Fault::LacksRecord(key)) = fault {
        page.retain(|(rkey, _)| rkey != key);
    }
    let author =
        if matches!(fault, Some(Fault::WrongDids)) { "did:plc:someoneelsesomeoneelsesom" } else { did };
    let mut records: Vec<Value> = page
        .iter()
        .map(|(rkey, record)| {
            let wrong = json!({ "another": "record" });
            let cid = cid_of(if matches!(fault, Some(Fault::WrongCids)) { &wrong } else { record });
            json!({ "uri": uri(author, collection, rkey), "cid": cid, "value": record })
        })
        .collect();
    if matches!(fault, Some(Fault::Unordered)) {
        records.reverse();
    }
    let mut answer = json!({ "records": records });
    let next = match fault {
        Some(Fault::SameCursor) => Some(query.cursor.clone().unwrap_or_else(|| "zzzz".to_owned())),
        Some(Fault::Endless) => Some(format!("{}+", query.cursor.as_deref().unwrap_or_default())),
        // Another text at the same position.
        Some(Fault::PageBefore) => last.map(|last| format!("{last}!")),
        _ => last,
    };
    if let Some(next) = next {
        answer["cursor"] = next.into();
    }
    answer
}
