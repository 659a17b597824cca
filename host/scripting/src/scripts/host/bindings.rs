//! The Rust bindings of the contract, generated from `wit/`. Each capability's file implements its interface, and
//! [`super::guest`] wraps the calls into the guest.

#![expect(clippy::too_many_arguments, reason = "the generated code takes every interface as an argument")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "guest",
    imports: {
        "belvedere:script/db": async | trappable,
        "belvedere:script/jobs": async | trappable,
        "belvedere:script/http": async | trappable,
        "belvedere:script/atproto": async | trappable,
        "belvedere:script/xrpc": async | trappable,
        "belvedere:script/repo": async | trappable,
        "belvedere:script/linked-repos": async | trappable,
        "belvedere:script/plugins": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    trappable_error_type: { "belvedere:script/types.fault" => super::Refusal },
});
