//! The files of the dashboard. The binary has them when `dev/dashboard.sh` ran before its build, as `make test` does.

use http::Method;

use crate::auth::Browser;
use crate::fixtures::World;
use crate::support::instance::{Answer, OPERATOR};
use crate::support::oauth_pds::OauthPds;

/// Every answer of the dashboard has these headers.
fn assert_protected(answer: &Answer) {
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(answer.headers[name], value);
    }
}

fn length(answer: &Answer) -> u64 {
    answer.headers["content-length"].to_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_is_served_with_its_files() {
    let world = World::sqlite().await;
    let get = async |path: &str, headers: &[(&str, &str)]| {
        world.server.request(Method::GET, path, headers, None).await
    };
    for path in [
        "/dashboard/assets/none.js",
        "/dashboard/none.svg",
        "/dashboard/index.html.br",
        "/dashboard/openapi.json",
        "/dashboard/..%2Fopenapi.json",
        "/dashboard/assets/..%2Findex.html",
    ] {
        assert_eq!(get(path, &[]).await.status, 404, "{path}");
    }
    let index = get("/dashboard/", &[("accept", "text/html")]).await;
    assert_eq!(index.status, 200);
    assert!(index.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    if index.text.contains("dev/dashboard.sh") {
        // Built without a dashboard.
        assert!(index.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
        return;
    }
    assert_protected(&index);
    assert_eq!(index.headers["cache-control"], "no-cache");
    let tag = index.headers["etag"].to_str().unwrap();
    let again = get("/dashboard/", &[("if-none-match", tag)]).await;
    assert_eq!(
        (again.status.as_u16(), again.text.as_str(), &again.headers["etag"]),
        (304, "", &index.headers["etag"])
    );

    let from = index.text.find("assets/").expect("the page has a script");
    let asset: String = index.text[from..].chars().take_while(|c| *c != '"').collect();
    let plain = get(&format!("/dashboard/{asset}"), &[]).await;
    assert_protected(&plain);
    assert_eq!((plain.status.as_u16(), plain.headers.get("content-encoding")), (200, None));
    assert_eq!(plain.headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(plain.headers["vary"], "accept-encoding");
    let mut tags = vec![plain.headers["etag"].clone()];
    for encoding in ["gzip", "br"] {
        let small = get(&format!("/dashboard/{asset}"), &[("accept-encoding", encoding)]).await;
        assert_eq!(small.headers["content-encoding"], encoding);
        assert_eq!(small.headers["content-type"], plain.headers["content-type"]);
        assert!(length(&small) < length(&plain));
        tags.push(small.headers["etag"].clone());
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "each copy has its own tag");
    let copy = get(&format!("/dashboard/{asset}.br"), &[]).await;
    assert_eq!(copy.status, 404, "copies have no address of their own");
}

/// The page tells the browser which scripts to fetch before the first of them has run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_for_the_login_or_for_a_user() {
    let world = World::sqlite().await;
    let pds = OauthPds::start().await;
    world.plc.host(OPERATOR, &pds.url());
    let mut browser = Browser::default();
    let seen = |answer: &Answer| {
        assert_eq!(answer.status, 200);
        if answer.text.contains("dev/dashboard.sh") {
            // Built without a dashboard.
            return None;
        }
        assert_protected(answer);
        let varies: Vec<_> = answer.headers.get_all("vary").iter().collect();
        assert_eq!(varies, ["accept-encoding", "cookie"], "a cache must not mix them up");
        Some((answer.text.contains("<html data-session"), answer.headers["etag"].clone()))
    };
    let page = "/dashboard/";
    let Some((is_for_user, tag)) = seen(&browser.get(&world.server, page).await) else { return };
    assert!(!is_for_user);
    browser.login(&world.server, &pds, OPERATOR).await;
    let (is_for_user, tag_of_user) = seen(&browser.get(&world.server, page).await).unwrap();
    assert!(is_for_user && tag != tag_of_user);
    browser.logout(&world.server, &format!("http://{}", world.server.address)).await;
    assert_eq!(seen(&browser.get(&world.server, page).await), Some((false, tag.clone())));
    let forged = [("cookie", "belvedere_session=forged")];
    let answer = world.server.request(Method::GET, page, &forged, None).await;
    assert_eq!(seen(&answer), Some((false, tag)));
}
