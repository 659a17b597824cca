//! The generated bindings of what plugins may import. Those of what they export are generated in the plugin's crate
//! (`export`), because that is where the linker looks for the description of the module's world.

/// The functions that plugins may import.
pub mod imports {
    wit_bindgen::generate!({
        path: "../../wit/plugin",
        inline: "
            package belvedere:sdk;
            world imports {
                import belvedere:plugin/types@1.0.0;
                import belvedere:plugin/log@1.0.0;
                import belvedere:plugin/clock@1.0.0;
                import belvedere:plugin/secrets@1.0.0;
                import belvedere:plugin/kv@1.0.0;
                import belvedere:plugin/http@1.0.0;
                import belvedere:plugin/lookup@1.0.0;
                import belvedere:plugin/attest@1.0.0;
            }
        ",
        world: "belvedere:sdk/imports",
        generate_all,
        generate_unused_types: true,
        pub_export_macro: true,
        export_macro_name: "export_nothing",
        additional_derives: [PartialEq],
    });
}
