//! The annotations of the script API for editors, `belvedere.d.lua`: what this version has, and the functions of plugins.

use std::fmt::Write as _;

use serde::Deserialize;

/// The script API without plugins.
const BUILT_IN: &str = include_str!("../../../../guest-lua/belvedere.d.lua");

/// The modules of v3, each from its line `---@meta NAME` on.
const V3: &str = include_str!("../../../../guest-lua/v3.d.lua");

/// Begins the part with the functions of plugins.
const HEADING: &str = "\n-- The installed plugins ------------------------------------------------------\
                       ---------------------------------------\n";

/// Words that can't be names in Lua.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// A plugin, as the answer of `GET /admin/plugins` describes it.
#[derive(Debug, Deserialize)]
pub struct PluginLibrary {
    pub id: String,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub functions: Vec<PluginFunction>,
}

/// A function of a plugin.
#[derive(Debug, Deserialize)]
pub struct PluginFunction {
    pub name: String,
    /// Such as `text: string` and `limit?: integer`.
    #[serde(default)]
    pub params: Vec<String>,
    pub help: Option<String>,
}

/// The annotations, with the functions of these plugins.
pub fn text(plugins: &[PluginLibrary]) -> String {
    let mut text = BUILT_IN.to_owned();
    let mut libraries: Vec<_> = plugins.iter().filter(|plugin| !plugin.functions.is_empty()).collect();
    libraries.sort_by(|a, b| a.id.cmp(&b.id));
    if !libraries.is_empty() {
        text += HEADING;
    }
    for plugin in libraries {
        describe(&mut text, plugin);
    }
    text
}

/// The modules of v3 by name, with their annotations: each is a file for the Lua language server, which finds it by its first line.
pub fn modules() -> Vec<(&'static str, &'static str)> {
    let starts: Vec<usize> = V3.match_indices("---@meta ").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([V3.len()]);
    let parts = starts.iter().zip(ends).map(|(start, end)| V3[*start..end].trim_end());
    parts.filter_map(|part| Some((part.lines().next()?.strip_prefix("---@meta ")?, part))).collect()
}

/// Appends the functions of one plugin. All texts are the plugin's: none may become anything but a comment, a name or a
/// string.
fn describe(out: &mut String, plugin: &PluginLibrary) {
    let table = format!("plugin{}", index(&plugin.id.replace('-', "_")));
    let class: String = plugin.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    comment(out, &format!("The plugin {} {}.", plugin.id, plugin.version));
    // Writing to a String can't fail.
    let _ = writeln!(out, "---@class belvedere.plugin.{class}\n{table} = {{}}");
    for function in &plugin.functions {
        out.push('\n');
        if let Some(help) = &function.help {
            comment(out, help);
        }
        let mut names = Vec::with_capacity(function.params.len());
        for (at, param) in function.params.iter().enumerate() {
            let (name, kind) = param.split_once(':').unwrap_or((param, "any"));
            let (name, mark) = match name.trim().strip_suffix('?') {
                Some(name) => (name.trim(), "?"),
                None => (name.trim(), ""),
            };
            let is_rest = name == "..." && at + 1 == function.params.len();
            let name = if is_name(name) || is_rest { name.to_owned() } else { format!("argument{}", at + 1) };
            let kind = one_line(kind);
            let kind = if kind.is_empty() { "any" } else { &kind };
            let _ = writeln!(out, "---@param {name}{mark} {kind}");
            names.push(name);
        }
        let (name, names) = (index(&function.name), names.join(", "));
        let _ = writeln!(out, "---@return any\n{table}{name} = function({names}) end");
    }
}

/// Appends a text as comments. Its lines can't begin an annotation.
fn comment(out: &mut String, text: &str) {
    for line in text.lines() {
        let line = one_line(line);
        let _ = writeln!(out, "---{}", line.trim_start_matches(['@', '|', '-', ' ']));
    }
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ").trim().to_owned()
}

/// `.name`, or `["name"]` for a text that can't be a name.
fn index(name: &str) -> String {
    if is_name(name) { format!(".{name}") } else { format!("[{name:?}]") }
}

fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    starts && valid && !KEYWORDS.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(json: &serde_json::Value) -> PluginLibrary {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn functions_of_plugins_are_described() {
        let markdown = plugin(&serde_json::json!({
            "id": "mark-down", "version": "1.2.0", "name": "Markdown", "status": "active",
            "functions": [
                {
                    "name": "render", "help": "HTML of a text.\nSanitised.",
                    "params": ["text: string", "options?: { links: boolean }", "... : string"]
                },
                { "name": "version", "params": [], "help": null },
            ],
        }));
        let linking = plugin(&serde_json::json!({ "id": "steam" }));
        let text = text(&[linking, markdown]);
        let (built_in, plugins) = text.split_at(BUILT_IN.len());
        assert_eq!(built_in, BUILT_IN);
        assert_eq!(
            plugins.strip_prefix(HEADING).unwrap(),
            "---The plugin mark-down 1.2.0.\n\
             ---@class belvedere.plugin.mark_down\n\
             plugin.mark_down = {}\n\
             \n\
             ---HTML of a text.\n\
             ---Sanitised.\n\
             ---@param text string\n\
             ---@param options? { links: boolean }\n\
             ---@param ... string\n\
             ---@return any\n\
             plugin.mark_down.render = function(text, options, ...) end\n\
             \n\
             ---@return any\n\
             plugin.mark_down.version = function() end\n"
        );
        assert_eq!(super::text(&[]), BUILT_IN);
    }

    #[test]
    fn texts_of_plugins_stay_comments_names_and_strings() {
        let hostile = plugin(&serde_json::json!({
            "id": "end",
            "version": "1\nos.execute('x')",
            "functions": [{
                "name": "f() end os.execute(\"x\") --\n",
                "params": ["a) end x(: string\nx()", "...", "goto", "", "b:", ":"],
                "help": "@class string\r\n --@alias x\n\u{0}x()",
            }],
        }));
        let text = text(&[hostile]);
        let plugins = text.split_once(HEADING).unwrap().1;
        for line in plugins.lines() {
            let is_code = line.is_empty() || line.starts_with("plugin[\"end\"]");
            assert!(is_code || line.starts_with("---"), "{line}");
            let is_annotation = ["@class belvedere.", "@param ", "@return any"];
            let comment = line.strip_prefix("---").filter(|rest| rest.starts_with('@'));
            assert!(comment.is_none_or(|rest| is_annotation.iter().any(|a| rest.starts_with(a))), "{line}");
        }
        assert!(plugins.contains(
            "plugin[\"end\"][\"f() end os.execute(\\\"x\\\") --\\n\"] = \
             function(argument1, argument2, argument3, argument4, b, argument6) end\n"
        ));
        assert!(
            plugins.contains("---@param argument1 string x()\n") && plugins.contains("---@param b any\n")
        );
    }
}
