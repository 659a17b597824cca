//! Reading what a user has just written: records and blobs.

use belvedere_protocol::atproto::blobs;
use serde_json::json;

use super::*;
use crate::oauth::device::{App, Device, pds};
use crate::support::instance::procedure_lexicon;

const STATUSES: &str = "com.example.status";
const PUT: &str = "com.example.putRecord";
const DELETE: &str = "com.example.deleteRecord";

crate::in_both_worlds!(
    case_18_a_status_is_created_replaced_and_deleted,
    case_19_avatar_and_banner_have_urls_of_each_size
);

/// A session that may write records of this collection, with procedures to put and to delete them.
async fn writer(world: &World, pds: &crate::support::oauth_pds::OauthPds, collection: &str) -> Device {
    for (nsid, action) in [(PUT, "upsert"), (DELETE, "delete")] {
        let body = json!({ "lexicon_json": procedure_lexicon(nsid), "target_collection": collection, "action": action,
            "backfill": false });
        let answer = world.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }
    let scopes = format!("atproto repo:{collection} blob:*/*");
    let client = json!({ "name": "app", "client_id_url": "https://app.example/client.json",
        "client_uri": "https://app.example", "redirect_uris": [], "scopes": scopes });
    let app = App::with(&world.server, client).await;
    app.device(&world.server, pds, ALICE, json!({ "scopes": scopes })).await
}

async fn write(world: &World, device: &Device, nsid: &str, input: Value) -> Value {
    let answer = device.request(&world.server, Method::POST, &format!("/xrpc/{nsid}"), Some(&input)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

async fn case_18_a_status_is_created_replaced_and_deleted(world: World) {
    world.server.upload(record_lexicon(STATUSES), None).await;
    let pds = pds(&world, &[ALICE]).await;
    let device = writer(&world, &pds, STATUSES).await;
    let view = json!({
        "view": 1, "from": { "collection": STATUSES, "did": "$actor" },
        "output": { "feed": [{ "uri": "@uri", "status": "@field:text" }], "cursor": "@cursor" }
    });
    serve(&world, paged(json!({ "actor": { "type": "string" } })), view).await;
    let actor = format!("actor={ALICE}");
    let created = write(&world, &device, PUT, json!({ "text": "here" })).await;
    let read = body(&world, &actor).await;
    assert_eq!(read["feed"], json!([{ "uri": created["uri"], "status": "here" }]));
    write(&world, &device, PUT, json!({ "uri": created["uri"], "text": "there" })).await;
    assert_eq!(column(&body(&world, &actor).await, "status"), ["there"]);
    write(&world, &device, DELETE, json!({ "uri": created["uri"] })).await;
    assert_eq!(body(&world, &actor).await["feed"], json!([]));
}

async fn case_19_avatar_and_banner_have_urls_of_each_size(world: World) {
    world.server.upload(record_lexicon(PROFILES), None).await;
    let pds = pds(&world, &[ALICE]).await;
    let device = writer(&world, &pds, PROFILES).await;
    let upload = async |bytes: &str| {
        let path = "/xrpc/com.atproto.repo.uploadBlob";
        let (token, proof) =
            (format!("DPoP {}", device.token), device.proof(&world.server, &Method::POST, path));
        let headers = [
            ("x-client-key", device.client_key.as_str()),
            ("authorization", &token),
            ("dpop", &proof),
            ("content-type", "image/png"),
        ];
        let answer = world.server.request(Method::POST, path, &headers, Some(bytes.to_owned())).await;
        let mut blob = answer.body["blob"].clone();
        // The stand-in makes no CID.
        blob["ref"] = json!({ "$link": CID });
        blob
    };
    let (avatar, banner) = (upload("avatar").await, upload("a banner").await);
    assert_eq!((&avatar["size"], &banner["size"]), (&json!(6), &json!(8)));
    let profile = write(&world, &device, PUT, json!({ "avatar": avatar, "banner": banner })).await;
    let view = json!({
        "view": 1, "from": { "uri": "$uri", "collection": PROFILES },
        "output": { "post": { "did": "@did", "avatar": "@blob:avatar", "banner": "@blob:banner" } }
    });
    serve(&world, json!({ "uri": { "type": "string" } }), view).await;
    let uri = format!("uri={}", profile["uri"].as_str().unwrap());
    let whole = blobs::url(&pds.url(), ALICE, CID);
    assert_eq!(body(&world, &uri).await["post"], json!({ "did": ALICE, "avatar": whole, "banner": whole }));
    // An image service that the app chooses has the sizes: a script names them.
    let sized = "com.example.getImages";
    let source = "function handle()
        local profile = db.get(params.uri)
        local function image(preset, blob)
            return string.format('https://images.example/%s/plain/%s/%s@jpeg', preset, profile._did, blob.ref['$link'])
        end
        return { avatar = image('avatar', profile.avatar), banner = image('banner', profile.banner),
            thumbnail = image('feed_thumbnail', profile.banner) }
    end";
    world.server.upload(crate::support::instance::query_lexicon(sized), None).await;
    world.server.bind(sized, source).await;
    let image = |preset: &str| format!("https://images.example/{preset}/plain/{ALICE}/{CID}@jpeg");
    assert_eq!(
        world.server.xrpc(&format!("{sized}?{uri}")).await.body,
        json!({ "avatar": image("avatar"), "banner": image("banner"), "thumbnail": image("feed_thumbnail") })
    );
}
