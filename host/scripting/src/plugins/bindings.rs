//! The Rust bindings of the contract, generated from `wit/plugin`. Each capability's file implements its interface, and
//! `values` names what other rooms use.

/// The error of a host function that gives no value.
pub(in crate::plugins) type Refusal = belvedere_wasm::sandbox::Refusal<belvedere::plugin::types::Fault>;

wasmtime::component::bindgen!({
    // Every import and export of the contract: which of them a plugin has is read from its module.
    inline: "
        package belvedere:host;

        world plugin {
            include belvedere:plugin/sync-plugin@1.0.0;
            include belvedere:plugin/library-plugin@1.0.0;
        }
    ",
    path: "../../wit/plugin",
    world: "belvedere:host/plugin",
    imports: {
        "belvedere:plugin/kv": async | trappable,
        "belvedere:plugin/http": async | trappable,
        "belvedere:plugin/lookup": async | trappable,
        default: trappable,
    },
    exports: { default: async },
    trappable_error_type: { "belvedere:plugin/types.fault" => Refusal },
    additional_derives: [PartialEq, Eq],
});
