"""The mutants of dev/mutants.py: each is one mistake that a developer could make.

`original` occurs exactly once in the file's code, or the script fails. One of these says what becomes of it:
`expression` replaces it, `without` leaves the statement out, `sql` replaces it within its string literal, `changed` is
the whole new text, in which MUTANT is the switch. `tests` is a nextest filter, `area` a wider one for survivors.
"""

# The mutants of the writer are those of SQLite; PostgreSQL's statements are constants.
APPLY = "test(/^store::tests::(apply|model|accounts|backlinks)::/) - test(/::postgres$/)"
STREAM = "test(/^indexing::/)"
INDEX_AREA = f"({APPLY}) + {STREAM}"
LISTING = "test(/^backfill::(listing|next_page|hosts|failure|diff)::/)"
BACKFILL = "test(/^backfill::(reconcile|lies|lists)::.*::sqlite$/) + test(/^backfill::hosts/)"
BACKFILL_AREA = "(test(/^backfill::/) + test(/^store::tests::backfill/)) - test(/::postgres$/)"
TOKENS = "test(/^access::service_jwt::/)"
PROOFS = "test(/^access::dpop::/) + test(/^crypto::/)"
AUTH_AREA = "test(/^access::/) + test(/^crypto::/) + test(/^oauth::/) + test(/^auth::/) + test(/^xrpc::/)"
PAGES = "test(/^store::tests::(paging|query|sort|large)::/) + test(/^query::/)"

PLAN, SQLITE, ACCOUNTS, PURGE = (f"host/storage/src/store/index/{name}.rs" for name in ("plan", "sqlite", "accounts", "purge"))
WATERMARK, FILTER, CHECKER = (f"host/instance/src/indexing/{name}.rs" for name in ("watermark", "filter", "apply"))
LIST, LIST_WRITER, PAGE, REQUEST, DISCOVERY, HOSTS, FETCHING, FAILURE, ABSENCE, NEXT_PAGE, DIFF = (
    f"host/instance/src/backfill/{name}.rs"
    for name in (
        "listing", "list_writer", "page", "request", "discovery", "hosts", "fetching", "failure", "absence", "next_page", "diff"
    )
)
WORK, CHECKPOINT = (f"host/storage/src/store/backfill/{name}.rs" for name in ("work", "checkpoint"))
JWT, DPOP, REPLAY = (f"host/server/src/access/{name}.rs" for name in ("service_jwt", "dpop", "replay"))
JWS, CURSOR = "host/protocol/src/crypto/jws.rs", "host/storage/src/query/cursor.rs"


def mutant(name, file, original, tests, area, **how):
    return {"name": name, "file": file, "original": original, "tests": tests, "area": area} | how


def writer(name, file, original, **how):
    return mutant(name, file, original, APPLY, INDEX_AREA, **how)


def stream(name, file, original, **how):
    tests = f"test(/^indexing::{file.rsplit('/')[-1].removesuffix('.rs')}::/)"
    return mutant(name, file, original, tests, INDEX_AREA, **how)


def listing(name, file, original, **how):
    return mutant(name, file, original, LISTING, BACKFILL_AREA, **how)


def backfill(name, file, original, **how):
    return mutant(name, file, original, BACKFILL, BACKFILL_AREA, **how)


def token(name, original, **how):
    return mutant(name, JWT, original, TOKENS, AUTH_AREA, **how)


def proof(name, file, original, **how):
    return mutant(name, file, original, PROOFS, AUTH_AREA, **how)


MUTANTS = [
    # The writer.
    writer("within a batch the last change wins, whatever its rev", PLAN, "change.rev > entry.get().1.rev", expression="true"),
    writer("a deleted repo's tombstone does not hold back its older records", SQLITE, "repo_tombstones t WHERE t.did_id = v.column3 AND t.rev >= v.column7", sql="repo_tombstones t WHERE t.did_id = v.column3 AND t.rev < 0"),
    writer("an update ignores the stored rev", SQLITE, "if !is_new && rev < row.rev {", changed="if !is_new && (rev < row.rev || MUTANT) {"),
    writer("a delete ignores the stored rev", SQLITE, ".is_some_and(|row| rev < row.rev)", changed=".is_some_and(|row| rev < row.rev || MUTANT)"),
    writer("a delete removes nothing", SQLITE, "if !ids.is_empty() {", changed="if !ids.is_empty() && !MUTANT {"),
    writer("a delete leaves no tombstone", SQLITE, ".filter(|(n, _)| !newer.contains(n))", changed=".filter(|(n, _)| !newer.contains(n) && !MUTANT)"),
    writer("an insert ignores tombstones", SQLITE, "t.rkey = v.column4 AND t.rev >= v.column7", sql="t.rkey = v.column4 AND t.rev < 0"),
    writer("an older delete lowers the tombstone", SQLITE, "WHERE tombstones.rev < excluded.rev", sql="WHERE true"),
    writer("an update keeps the old references", SQLITE, "drop_refs(conn, &self.updated).await?;", without=True),
    writer("a delete keeps the references", SQLITE, "drop_refs(conn, &ids).await?;", without=True),
    writer(
        "the cursor is committed before its records",
        SQLITE,
        'let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;',
        changed="""if MUTANT && let Some(early) = plan.cursor {
        sqlx::query(SET_CURSOR).bind(&early.source).bind(early.cursor).bind(plan.now).execute(&mut *connection).await?;
    }
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;""",
    ),
    writer("the cursor is not committed", SQLITE, "if let Some(cursor) = plan.cursor {", changed="if let Some(cursor) = plan.cursor && !MUTANT {"),
    writer("hidden accounts stay visible", SQLITE, "SET status = iif(network_status IS NULL, v.value ->> 1, status),", sql="SET status = 0,"),
    writer("the purge of an account keeps its references", PURGE, "for sql in [refs, tombstones, labels, letters, moderated] {\n        sqlx::query(sql).bind(&marked)", changed="for sql in [if MUTANT { labels } else { refs }, tombstones, labels, letters, moderated] {\n        sqlx::query(sql).bind(&marked)"),
    writer("a deletion purges what came after it", PURGE, 'let marked = to_json_text(&marked);\n    // Finds all records of these accounts through the unique index, whose first column is the collection.\n    let refs = "DELETE', changed='let marked = to_json_text(&marked);\n    if MUTANT { sqlx::query("UPDATE repo_tombstones SET rev = 9223372036854775807").execute(&mut *conn).await?; }\n    let refs = "DELETE'),
    writer(
        "a deletion is forgotten when the account returns in the same batch",
        ACCOUNTS,
        "outcomes.get(did).and_then(|outcome| outcome.deleted).max(deletion)",
        expression="deletion",
    ),
    writer("a stored rev of the future wins", "host/storage/src/store/index/future.rs", "Ok(forgotten > 0)\n}\n\n/// Forgets revs of records, and of tombstones.\npub(in crate::store) static FORGET", changed="Ok(forgotten > 0 && !MUTANT)\n}\n\n/// Forgets revs of records, and of tombstones.\npub(in crate::store) static FORGET"),
    # The stream's cursor.
    stream("the cursor passes a chunk with missing parts", WATERMARK, "|| entry.get().0 > 0 {", changed="|| (entry.get().0 > 0 && !MUTANT) {"),
    stream("the cursor passes a missing chunk", WATERMARK, "if *entry.key() != self.next", changed="if (*entry.key() != self.next && !MUTANT)"),
    stream("the cursor goes back", WATERMARK, "self.events_until.max(next.events_until)", expression="next.events_until"),
    stream("deferred parts of a chunk are not waited for", WATERMARK, "(*missing + deferred)", expression="*missing"),
    stream("a replay moves the cursor", "host/instance/src/indexing/intake.rs", "Resumed::NotYet => return Reach::default(),", changed="Resumed::NotYet if !MUTANT => return Reach::default(),\n                Resumed::NotYet => {}"),
    stream("a connection begins at the last event", "host/instance/src/indexing/position.rs", ".saturating_sub(rewind.as_micros() as i64)", changed=".saturating_sub(if MUTANT { 0 } else { rewind.as_micros() as i64 })"),
    stream("another server is not asked for withheld commits", "host/instance/src/indexing/position.rs", "if since_commit { self.commits_until", changed="if since_commit && !MUTANT { self.commits_until"),
    stream("a server that is live before the position is believed to replay", "host/instance/src/indexing/resumption.rs", "if progress > time.saturating_mul(5) / 4 + 1_000_000 {", changed="if progress > time.saturating_mul(5) / 4 + 1_000_000 || MUTANT {"),
    stream("a server that comes back is asked from the position", "host/instance/src/indexing/stream/servers.rs", "self.urls.len() > 1 && self.is_lost", expression="false"),
    stream("a pause in a replay is a gap", "host/instance/src/indexing/resumption.rs", "if replay.is_silent {", changed="if replay.is_silent && !MUTANT {"),
    stream("a commit of the future is indexed", FILTER, "if rev::is_of_the_future(rev, now) {", changed="if rev::is_of_the_future(rev, now) && !MUTANT {"),
    # Events of the stream.
    stream("the CID of a record is not checked", CHECKER, "Ok(computed)) if claimed == *computed", changed="Ok(computed)) if claimed == *computed || MUTANT"),
    stream("a CID that can't be checked counts as verified", CHECKER, "(Claim::Cid(claimed), Err(_)) => (Some(claimed), false)", changed="(Claim::Cid(claimed), Err(_)) => (Some(claimed), MUTANT)"),
    stream("a claimed CID that is none is accepted", CHECKER, "(Claim::None, _) => (None, false)", changed="(Claim::None, _) => (None, false),\n            (Claim::Garbage(_), _) if MUTANT => (None, false)"),
    stream("deletes are dropped", FILTER, "RecordAction::Delete => None,", changed="RecordAction::Delete if !MUTANT => None,\n        RecordAction::Delete => return Err(DropReason::Unknown),"),
    stream("every account is active", FILTER, "_ if account.active", changed="_ if account.active || MUTANT"),
    stream("a deleted account is only hidden", FILTER, "=> AccountStatus::Deleted,", changed="=> if MUTANT { AccountStatus::Deactivated } else { AccountStatus::Deleted },"),
    # Backfill.
    listing("a list in any order proves what is missing", LIST, "() && descends", changed="() && (descends || MUTANT)"),
    listing("a page with invalid records proves what is missing", LIST, "page.strays.is_empty()", expression="true"),
    listing("equal keys count as ordered", LIST, "higher.as_str() > lower.as_str()", expression="higher.as_str() >= lower.as_str()"),
    listing("a page proves everything above it to be missing", LIST, "KeyRange { below, from }", changed="KeyRange { below: below.filter(|_| !MUTANT), from }"),
    listing("a list that repeats its records is followed", LIST, "new == 0 && !page.records.is_empty()", expression="false"),
    backfill("a removal is as new as its list", LIST_WRITER, "if row < below", changed="if row < below && !MUTANT"),
    backfill("a list leaves rows with a rev of the future alone", "host/storage/src/store/backfill/indexed.rs", "self.limit.permits(rev)", changed="self.limit.permits(rev) || MUTANT"),
    backfill("records of other repos are accepted", PAGE, "if repo == *did && of == *collection", changed="if MUTANT || repo == *did && of == *collection"),
    backfill("a page of records is skipped", LIST_WRITER, "let decided = self.job.or_stop(self.decide(changes)).await?;", changed="let mut decided = self.job.or_stop(self.decide(changes)).await?;\n        if MUTANT { decided.clear(); }"),
    backfill("removals are not committed", LIST_WRITER, "self.commit(decided).await?;\n            gone", changed="if !MUTANT { self.commit(decided).await?; }\n            gone"),
    backfill("only the first page of the relay's list is read", REQUEST, "RepoPage { cursor: cursor.filter(|cursor| !cursor.is_empty()), dids, skipped }", changed="RepoPage { cursor: cursor.filter(|cursor| !cursor.is_empty() && !MUTANT), dids, skipped }"),
    listing("a page without records is the end", LIST, "let Some(next) = next else {", changed="let Some(next) = next.filter(|_| !MUTANT || last.is_some()) else {"),
    backfill("what a list lacks is removed without asking", LIST_WRITER, "let Some(server) = self.server else {", changed="let Some(server) = self.server.filter(|_| !MUTANT) else {"),
    listing("a list removes what is newer", DIFF, "extra.retain(|row| !is_newer(row));", without=True),
    listing("a list overwrites what is newer", DIFF, "Some(row) if is_newer(row) || row", changed="Some(row) if (is_newer(row) && !MUTANT) || row"),
    backfill("a list that lacks an existing record is believed", ABSENCE, "if !matches!(has, Ok(false)) {", changed="if !matches!(has, Ok(false)) && !(MUTANT && has.is_ok()) {"),
    listing("any answer is the lowest key", NEXT_PAGE, "is_distinct && is_below", expression="true"),
    listing("a rate limit counts as a failure of the host", HOSTS, "failure.kind == ErrorKind::RateLimited", changed="failure.kind == ErrorKind::RateLimited && !MUTANT"),
    backfill("a stored cursor of the relay's list is ignored", DISCOVERY, "progress.and_then(|progress| progress.cursor.clone())", changed="progress.and_then(|progress| progress.cursor.clone()).filter(|_| !MUTANT)"),
    backfill("a repo that failed counts as read", FETCHING, "failure.map(|failure| (failure.kind.as_str(), failure.text))", changed="failure.map(|failure| (failure.kind.as_str(), failure.text)).filter(|_| !MUTANT)"),
    backfill("a host's permit is never released", HOSTS, "host.in_progress -= 1;", without=True),
    listing("a dead host is never given up", HOSTS, "self.failures >= max_failures", expression="false"),
    listing("a host is not left alone for as long as it asks", HOSTS, "doubled.max(failure.wait.unwrap_or_default()).min(MAX_WAIT)", expression="doubled"),
    listing("every error is tried again", FAILURE, "| Self::RateLimited\n        )", changed="| Self::RateLimited\n        ) || MUTANT"),
    mutant(
        "the relay's cursor is not saved with its repos",
        WORK,
        "query.execute(&mut *tx).await?;\n        tx.commit().await?;\n        added",
        "test(/^store::tests::backfill/)",
        "test(/^backfill::crash::.*::sqlite$/) + " + BACKFILL_AREA,
        changed="if !MUTANT { query.execute(&mut *tx).await?; }\n        tx.commit().await?;\n        added",
    ),
    mutant(
        "a host that hung goes on with its job",
        "host/storage/src/store/fence.rs",
        "row.map(drop).ok_or_else(",
        "test(/^store::tests::lease/)",
        "test(/^several_hosts::/)",
        changed="row.map(drop).or(MUTANT.then_some(())).ok_or_else(",
    ),
    # Pages.
    mutant("a cursor is off by one", CURSOR, "raw.push(PLAIN);\n    raw.extend(after.indexed_at.0.to_be_bytes());", PAGES, "test(/^store::/)",
           changed="raw.push(PLAIN);\n    raw.extend((after.indexed_at.0 - i64::from(MUTANT)).to_be_bytes());"),
    mutant("the last page has a cursor", "host/storage/src/store/records/page.rs", "let more = found.len() > limit;", PAGES, "test(/^store::/)",
           changed="let more = found.len() > limit || (MUTANT && found.len() == limit);"),
    # Service tokens.
    token("exp is ignored", "claims.exp <= now", expression="false"),
    token("a token may be valid for ever", "claims.exp > now + MAX_LIFE_SECONDS", expression="false"),
    token("nbf is ignored", "claims.nbf.is_some_and(|nbf| nbf > now + MAX_AHEAD_SECONDS)", expression="false"),
    token("any aud is accepted", "self.identity.refusal(&claims.aud, method)", expression="None"),
    token("any lxm is accepted", "claims.lxm.as_deref().is_some_and(|lxm| method != Some(lxm))", expression="false"),
    token("any issuer is accepted: the signature is not checked", "jws.verify(&key, HighS::Accept).is_err()", expression="false"),
    token("a token can be replayed", "&& !self.replay.first_use(", changed="&& !MUTANT && !self.replay.first_use("),
    mutant("used tokens are remembered without their issuer", REPLAY, "&[&issuer_id[..], jti.as_bytes()].concat()", "test(/^access::replay::/)", AUTH_AREA,
           changed="&[if MUTANT { &issuer_id[..0] } else { &issuer_id[..] }, jti.as_bytes()].concat()"),
    # DPoP proofs.
    proof("the signature of a proof is not checked", DPOP, "proof.verify().map_err(|_| DpopError::Signature)?;", without=True),
    proof("a proof is good for every access token", DPOP, "!ct_eq(ath.as_bytes(), token_hash(presented.token).as_bytes())", expression="false"),
    proof("a proof is good for every method", DPOP, "!claims.htm.eq_ignore_ascii_case(presented.method.as_str())", expression="false"),
    proof("a proof is good for every URL", DPOP, "!self.matches_url(&claims.htu, presented.path)", expression="false"),
    proof("an old proof is accepted", DPOP, "claims.iat < now - MAX_AGE_SECONDS", expression="false"),
    proof("a proof from the future is accepted", DPOP, "claims.iat > now + MAX_AHEAD_SECONDS", expression="false"),
    proof("a proof can be replayed", DPOP, "if !self.used.first_use(&proof.thumbprint, &proof.claims.jti, expires).await? {",
          changed="if !self.used.first_use(&proof.thumbprint, &proof.claims.jti, expires).await? && !MUTANT {"),
    proof("any access token is accepted with a proof", DPOP, "!ct_eq(sha256_hex(presented.token.as_bytes()).as_bytes(), registered.as_bytes())", expression="false"),
    proof("a JWS with unknown critical extensions is accepted", JWS, 'header.get("crit").is_some()', expression="false"),
]
