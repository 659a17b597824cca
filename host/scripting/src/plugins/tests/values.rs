//! `kv`: scopes, quotas and lifetimes.

use serde_json::{Value, json};

use super::{Stage, all_grants, scope};
use crate::plugins::calls::{CallError, CallScope, FaultCode, RunContext};
use crate::plugins::manifest::Manifest;
use crate::plugins::{LoadedPlugin, limits};
use belvedere_protocol::atproto::Did;

#[tokio::test]
async fn values_belong_to_a_plugin_and_an_account() {
    let mut stage = Stage::set().await;
    for scope in ["account", "plugin"] {
        stage.act("kv_set", json!([scope, "k", scope])).await.unwrap();
    }
    assert_eq!(stage.act("kv_get", json!(["account", "k"])).await.unwrap(), json!("account"));
    assert_eq!(stage.act("kv_get", json!(["plugin", "k"])).await.unwrap(), json!("plugin"));
    // Another account, and none.
    let bob = CallScope { did: Some(Did::try_from("did:plc:bob").unwrap()), ..scope() };
    assert_eq!(stage.act_for(&bob, "kv_get", json!(["account", "k"])).await.unwrap(), Value::Null);
    assert_eq!(stage.act_for(&bob, "kv_get", json!(["plugin", "k"])).await.unwrap(), json!("plugin"));
    let nobody = CallScope { did: None, ..scope() };
    for scope in ["account", "flow"] {
        match stage.act_for(&nobody, "kv_get", json!([scope, "k"])).await {
            Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::NotLinked),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stage.act("kv_delete", json!(["account", "k"])).await.unwrap(), json!(true));
    assert_eq!(stage.act("kv_delete", json!(["account", "k"])).await.unwrap(), json!(false));
    // Another plugin of the same module.
    let manifest = json!({"id": "other", "name": "Other", "version": "1.0.0", "api_version": "1"});
    stage.plugin = LoadedPlugin {
        manifest: Manifest::parse(manifest.to_string().as_bytes()).unwrap().into(),
        grants: crate::plugins::manifest::Grants::new(all_grants()),
        component: stage.plugin.component.clone(),
        status: stage.plugin.status,
        functions: Vec::new(),
    }
    .into();
    assert_eq!(stage.act("kv_get", json!(["plugin", "k"])).await.unwrap(), Value::Null);
    assert_eq!(stage.act("secret", json!("API_KEY")).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn values_are_bounded() {
    let stage = Stage::set().await;
    let quota = usize::try_from(limits::KV_BYTES).unwrap();
    stage.act("kv_set", json!(["account", "k", quota - 1])).await.unwrap();
    let fault = async |arg: Value| stage.fault("kv_set", arg).await.0;
    assert_eq!(fault(json!(["account", "k", quota])).await, FaultCode::Quota);
    assert_eq!(fault(json!(["account", "l", 0])).await, FaultCode::Quota, "the key counts");
    stage.act("kv_set", json!(["account", "k", 1])).await.unwrap();
    stage.act("kv_set", json!(["account", "l", quota - 3])).await.unwrap();
    let flow = CallScope { flow: Some("f".to_owned()), ..scope() };
    match stage.act_for(&flow, "kv_set", json!(["flow", "k", limits::KV_FLOW_BYTES])).await {
        Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::Quota),
        other => panic!("{other:?}"),
    }
    let long = "k".repeat(limits::KV_KEY_BYTES + 1);
    for key in ["", "a\0b", &long] {
        assert_eq!(fault(json!(["account", key, 1])).await, FaultCode::BadInput);
    }
    // A flood ends with the writes of a call, and in all at the number of keys.
    let mut next = json!(0);
    for _ in 0..limits::KV_KEYS / i64::from(limits::KV_WRITES) {
        let before = next.as_u64().unwrap();
        next = stage.act("kv_flood", next).await.unwrap();
        assert_eq!(next, json!(before + u64::from(limits::KV_WRITES)));
    }
    assert_eq!(next, json!(limits::KV_KEYS));
    assert_eq!(stage.act("kv_flood", next.clone()).await.unwrap(), next);
}

#[tokio::test]
async fn values_expire() {
    let stage = Stage::set().await;
    let later = |seconds: i64| stage.clock.set(super::NOW.plus_seconds(seconds));
    stage.act("kv_set", json!(["account", "k", "v", 60])).await.unwrap();
    let flow = CallScope { flow: Some("f".to_owned()), ..scope() };
    stage.act_for(&flow, "kv_set", json!(["flow", "k", "v"])).await.unwrap();
    later(59);
    assert_eq!(stage.act("kv_get", json!(["account", "k"])).await.unwrap(), json!("v"));
    later(60);
    assert_eq!(stage.act("kv_get", json!(["account", "k"])).await.unwrap(), Value::Null);
    assert_eq!(stage.act("kv_delete", json!(["account", "k"])).await.unwrap(), json!(false));
    assert_eq!(stage.act_for(&flow, "kv_get", json!(["flow", "k"])).await.unwrap(), json!("v"));
    later(i64::from(limits::KV_FLOW_SECONDS));
    assert_eq!(stage.act_for(&flow, "kv_get", json!(["flow", "k"])).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn queries_write_no_values() {
    let stage = Stage::set().await;
    stage.act("kv_set", json!(["account", "k", "v"])).await.unwrap();
    let run = RunContext { read_only: true, ..RunContext::default() };
    let call = async |name: &str, arg: Value| {
        stage.calls.call_function(&stage.plugin, &scope(), name, &json!([arg]).to_string(), &run).await
    };
    assert_eq!(call("kv_get", json!(["account", "k"])).await.unwrap(), "\"v\"");
    for (name, arg) in [("kv_set", json!(["account", "k", "w"])), ("kv_delete", json!(["account", "k"]))] {
        match call(name, arg).await {
            Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::Forbidden, "{name}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn values_of_users_without_an_account_last_a_day() {
    let stage = Stage::set().await;
    stage.act("kv_set", json!(["account", "k", "v"])).await.unwrap();
    stage.act("kv_set", json!(["plugin", "k", "v"])).await.unwrap();
    stage.clock.set(super::NOW.plus_seconds(i64::from(limits::KV_UNLINKED_SECONDS)));
    assert_eq!(stage.act("kv_get", json!(["account", "k"])).await.unwrap(), Value::Null);
    assert_eq!(stage.act("kv_get", json!(["plugin", "k"])).await.unwrap(), json!("v"));
}
