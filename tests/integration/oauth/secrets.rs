//! Secrets are in no log line, event, metric or database file, even with trace logs.

use std::fs;

use belvedere_standins::database::sqlite_url;
use http::Method;
use serde_json::json;

use super::device::App;
use crate::fixtures::{ALICE, NOTES};
use crate::support::instance::{Instance, OPERATOR, procedure_lexicon, record_lexicon};
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Plc;
use crate::support::process;

const PUT: &str = "com.example.putNote";

/// A procedure whose runs are recorded. It uses a script variable, the caller's session and a secret of its input.
const SCRIPT: &str = "function handle()
    local note = Record('com.example.note', { text = input.text })
    note:save()
    local rows = db.raw('SELECT $1 AS a, $2 AS b', { env.KEY .. '/recorded', input.password })
    return { uri = note._uri, key = env.KEY, rows = rows }
end";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_not_leaked() {
    let (url, directory) = sqlite_url();
    let (plc, pds) = (Plc::start().await, OauthPds::start().await);
    for did in [ALICE, OPERATOR] {
        plc.host(did, &pds.url());
    }
    let metrics = process::free_address().to_string();
    let more = [("PLC_URL", &*plc.url()), ("RUST_LOG", "trace"), ("METRICS_ADDR", &metrics)];
    let mut server = Instance::start_with(&url, "none", &more).await;
    server.upload(record_lexicon(NOTES), None).await;
    server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    let mut secrets = vec![("admin key", server.admin_key.clone())];

    let variable = json!({ "key": "KEY", "value": "m4rk3r of/a variable" });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    let trigger = format!("xrpc.procedure:{PUT}");
    server.bind_to(&trigger, SCRIPT).await;
    let recording = format!("/admin/scripts/{}/recording", trigger.replace(':', "%3A"));
    assert_eq!(server.admin(Method::PUT, &recording, Some(&json!({}))).await.status, 200);
    secrets.push(("variable", "m4rk3r of/a variable".to_owned()));
    secrets.push(("variable in an address", "m4rk3r%20of%2Fa".to_owned()));
    secrets.push(("password", "m4rk3r-password".to_owned()));

    // A session that writes, is renewed, and is refused.
    let app = App::confidential(&server, "one").await;
    let device = app.device(&server, &pds, ALICE, json!({})).await;
    secrets.push(("client secret", app.secret.clone().unwrap()));
    secrets.push(("access token", device.token.clone()));
    secrets.push((
        "private key",
        belvedere_protocol::crypto::jwk::private_jwk(&device.key).unwrap()["d"].as_str().unwrap().to_owned(),
    ));
    let path = format!("/xrpc/{PUT}");
    let write = async || {
        device
            .request(
                &server,
                Method::POST,
                &path,
                Some(&json!({ "text": "a", "password": "m4rk3r-password" })),
            )
            .await
            .status
    };
    assert_eq!(write().await, 200);
    pds.expire_all();
    assert_eq!(write().await, 200);
    let form = String::from_utf8_lossy(&pds.requests("/oauth/token")[0].body).into_owned();
    let refresh = form.split("refresh_token=").nth(1).unwrap().split('&').next().unwrap();
    secrets.push(("refresh token", refresh.replace("%3A", ":")));
    let renewed = pds.requests("/xrpc/com.atproto.repo").last().unwrap().headers["authorization"]
        .to_str()
        .unwrap()
        .to_owned();
    secrets.push(("renewed token", renewed.replace("DPoP ", "")));
    let wrong = [("x-client-key", &*app.key), ("x-client-secret", "bvs_a-wrong-secret")];
    server.request(Method::POST, "/oauth/dpop-keys", &wrong, Some("{}".to_owned())).await;
    secrets.push(("a wrong secret", "bvs_a-wrong-secret".to_owned()));
    let proof = device.proof(&server, &Method::GET, "/xrpc/com.example.other");
    device.send(&server, Method::POST, &path, &proof, Some(&json!({}))).await;
    secrets.push(("a proof", proof));

    let written = async |server: &Instance| {
        server.admin(Method::GET, &recording, None).await.body["runs"].as_u64() >= Some(2)
    };
    server.eventually("the runs are recorded", written).await;

    // A login and an invite.
    let begun = server.request(Method::GET, &format!("/auth/login?handle={OPERATOR}"), &[], None).await;
    let cookie = begun.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let back = pds.consent(OPERATOR, begun.body["url"].as_str().unwrap());
    secrets.push(("login cookie", cookie.split('=').nth(1).unwrap().to_owned()));
    secrets.push(("state", back["state"].clone()));
    secrets.push(("code", back["code"].clone() + "&"));
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&back).finish();
    let landed =
        server.request(Method::GET, &format!("/auth/callback?{query}"), &[("cookie", &cookie)], None).await;
    let session = landed.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(server.request(Method::GET, "/auth/me", &[("cookie", &session)], None).await.status, 200);
    secrets.push(("session cookie", session.split('=').nth(1).unwrap().to_owned()));
    let grant =
        server.admin(Method::POST, "/admin/linked-repos", Some(&json!({ "scopes": "blob:*/*" }))).await;
    let invite = format!("/admin/linked-repos/{}/invite", grant.body["id"].as_str().unwrap());
    let invite = server.admin(Method::POST, &invite, Some(&json!({}))).await;
    let token = invite.body["invite_url"].as_str().unwrap().split("token=").nth(1).unwrap().to_owned();
    server.request(Method::GET, &format!("/auth/linked-repo/start?token={token}"), &[], None).await;
    secrets.push(("invite", token));

    let events = server.admin(Method::GET, "/admin/events?limit=100", None).await.text;
    assert!(events.contains("dpop_session.created"), "{events}");
    let measured =
        belvedere_standins::http_client::send(metrics.parse().unwrap(), Method::GET, "/metrics", &[], None);
    let measured = String::from_utf8_lossy(&measured.await.unwrap().2).into_owned();
    server.stop();
    let log = server.log();
    assert!(log.contains("TRACE") && log.contains("/oauth/sessions"), "much is logged");
    let mut places = vec![
        ("the log".to_owned(), log),
        ("the events".to_owned(), events),
        ("the metrics".to_owned(), measured),
    ];
    for file in fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap().path();
        places.push((
            file.display().to_string(),
            String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned(),
        ));
    }
    assert!(places.len() > 3, "the database is among them");
    assert!(
        places.iter().any(|(_, text)| text.contains("KEYKEY KE/Y KEYKEYKE/recorded")),
        "and the recorded runs"
    );
    for (what, secret) in &secrets {
        assert!(secret.len() > 6, "{what}: {secret}");
        for (place, text) in &places {
            assert!(!text.contains(secret.as_str()), "{what} is in {place}: {}", line(text, secret));
        }
    }
}

/// The line that contains a secret, for the failure message.
fn line<'a>(text: &'a str, secret: &str) -> &'a str {
    text.lines()
        .find(|line| line.contains(secret))
        .map(|line| &line[..line.len().min(400)])
        .unwrap_or_default()
}
