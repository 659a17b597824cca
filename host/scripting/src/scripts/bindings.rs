//! The Rust bindings of the contract, generated from `wit/`. Each capability's file implements its interface, and
//! `host::guest` wraps the calls into the guest.

#![expect(clippy::too_many_arguments, reason = "the generated code takes every interface as an argument")]

/// The error of a host function that gives no value.
pub(in crate::scripts) type Refusal = belvedere_wasm::sandbox::Refusal<belvedere::script::types::Fault>;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "guest",
    imports: {
        "belvedere:script/db": async | trappable,
        "belvedere:script/jobs": async | trappable,
        "belvedere:script/http": async | trappable,
        "belvedere:script/atproto": async | trappable,
        "belvedere:script/moderation": async | trappable,
        "belvedere:script/xrpc": async | trappable,
        "belvedere:script/repo": async | trappable,
        "belvedere:script/linked-repos": async | trappable,
        "belvedere:script/spaces": async | trappable,
        "belvedere:script/plugins": async | trappable,
        "belvedere:script/parallel": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    // Recorded runs keep what crosses the contract.
    additional_derives: [serde::Serialize, serde::Deserialize],
    trappable_error_type: { "belvedere:script/types.fault" => Refusal },
});
