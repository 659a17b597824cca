//! `belvedere verify` beside a running server: it finds what differs, and its exit status says so.

use super::*;

/// The exit status, and the lines of standard output in order.
type Outcome = (i32, Vec<String>);

impl Scene {
    fn verify(&self, arguments: &[&str]) -> Outcome {
        let output = self.server.run(&[&["verify", "--wait", "1"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (output.status.code().unwrap(), lines)
    }

    fn verify_json(&self, arguments: &[&str]) -> (i32, Value) {
        let (status, lines) = self.verify(&[&["--json"], arguments].concat());
        assert_eq!(lines.len(), 1, "{lines:?}");
        (status, serde_json::from_str(&lines[0]).unwrap())
    }

    async fn hide(&self, did: &str, status: Option<&str>) {
        self.stream.push(Frame::account(Clock::system().now().0, did, status));
        let is_hidden = async |_: &Instance| {
            let is_shown = self.index(NOTES).await.keys().any(|uri| uri.contains(did));
            is_shown != status.is_some()
        };
        self.server.eventually("the account has the status", is_hidden).await;
    }
}

fn uri(n: usize, rkey: &str) -> String {
    format!("at://{}/{NOTES}/{rkey}", account(n))
}

in_both_scenes!(
    differences_are_found_and_have_an_exit_status,
    accounts_are_compared_by_their_status,
    what_can_not_be_compared_is_no_difference
);

async fn differences_are_found_and_have_an_exit_status(scene: Scene) {
    for n in 0..6 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 230);
    }
    scene.backfill().await;
    assert_eq!(scene.verify(&[]), (0, Vec::new()));
    let (status, report) = scene.verify_json(&["--collection", NOTES]);
    assert_eq!((status, &report["repos"], &report["records"]), (0, &json!(6), &json!(6 * 230)));

    for key in ["0000", "0099", "0229"] {
        scene.network.delete(&account(1), NOTES, key);
    }
    scene.network.put(&account(2), NOTES, "0100", note("changed"));
    scene.network.put(&account(3), NOTES, "0100x", note("new"));
    // A record whose repo the relay does not list, and one that only the relay has.
    for key in 0..230 {
        scene.network.delete(&account(4), NOTES, &format!("{key:04}"));
    }
    scene.network.put(&account(4), NOTES, "last", note("last"));
    scene.network.unlist(&account(4));
    scene.network.account(&account(6), 0);
    scene.network.fill(&account(6), NOTES, 1);
    let mut expected: Vec<String> =
        ["0000", "0099", "0229"].map(|key| format!("extra {}", uri(1, key))).into();
    expected.extend((0..230).map(|key| format!("extra {}", uri(4, &format!("{key:04}")))));
    expected.push(format!("missing {}", uri(3, "0100x")));
    expected.push(format!("missing {}", uri(4, "last")));
    expected.push(format!("missing {}", uri(6, "0000")));
    expected.push(format!("stale {}", uri(2, "0100")));
    expected.sort_unstable();
    assert_eq!(scene.verify(&[]), (1, expected));
    assert_eq!(scene.verify(&["--did", &account(2)]), (1, vec![format!("stale {}", uri(2, "0100"))]));
    assert_eq!(scene.verify(&["--did", &account(5)]), (0, Vec::new()));
    let (_, report) = scene.verify_json(&["--sample", "2"]);
    assert_eq!(report["repos"], 2);

    // A PDS that does not answer hides no difference of the others, and is no difference itself.
    let unreachable = belvedere_standins::repos::document(&account(5), "http://127.0.0.1:9");
    scene.network.document(&account(5), unreachable);
    let (status, report) = scene.verify_json(&[]);
    assert_eq!((status, &report["missing"]["count"], &report["extra"]["count"]), (1, &json!(3), &json!(233)));
    assert_eq!(report["stale"]["uris"], json!([uri(2, "0100")]));
    assert_eq!(report["not_reached"]["list"][0][0], format!("at://{}", account(5)));
    for n in [4, 6] {
        let id = scene.create(Some(NOTES), Some(&account(n))).await;
        scene.wait_for_status(&id, "completed").await;
    }
    scene.backfill().await;
    let (status, lines) = scene.verify(&[]);
    assert_eq!((status, lines.len()), (2, 1), "{lines:?}");
    assert!(lines[0].starts_with(&format!("not reached at://{}: ", account(5))), "{lines:?}");
    scene.network.account(&account(5), 1);
    assert_eq!(scene.verify(&[]), (0, Vec::new()));
}

async fn accounts_are_compared_by_their_status(scene: Scene) {
    for n in 0..3 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.backfill().await;
    scene.network.set_error(&account(0), Some("RepoDeactivated"));
    let extra = format!("extra at://{}", account(0));
    assert_eq!(scene.verify(&[]), (1, vec![extra]));
    scene.hide(&account(0), Some("deactivated")).await;
    assert_eq!(scene.verify(&[]), (0, Vec::new()));
    scene.network.set_error(&account(0), None);
    let missing = format!("missing at://{}", account(0));
    assert_eq!(scene.verify(&[]), (1, vec![missing]));
    scene.hide(&account(0), None).await;
    // The relay may take an account down that its PDS serves.
    scene.hide(&account(1), Some("takendown")).await;
    assert_eq!(scene.verify(&[]), (0, Vec::new()));
}

async fn what_can_not_be_compared_is_no_difference(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.backfill().await;
    // The stream has not come so far.
    scene.network.set_time(Clock::system().now().0 + 200_000_000);
    scene.network.delete(&account(0), NOTES, "0001");
    let (status, lines) = scene.verify(&[]);
    assert!(status == 2 && lines[0].contains("the position of the stream"), "{status} {lines:?}");

    for (arguments, message) in [
        (&["--collection", "com.example.unknown"][..], "has no record lexicon"),
        (&["--did", "nobody.invalid"], "--did nobody.invalid"),
        (&["--sample", "0"], "--sample"),
    ] {
        let output = scene.server.run(&[&["verify"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message), "{text}");
    }
    scene.network.faults(belvedere_standins::repos::Site::Relay, |query| {
        let refuse = || belvedere_standins::repos::Fault::Status(400, Vec::new(), "{}".to_owned());
        query.method.ends_with("listReposByCollection").then(refuse)
    });
    let (status, report) = scene.verify_json(&[]);
    assert_eq!((status, &report["not_reached"]["list"][0][0]), (2, &json!(scene.network.url())));
}
