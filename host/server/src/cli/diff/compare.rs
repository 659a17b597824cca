//! Compares two exports part by part.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::super::folder::count;
use crate::api::admin::export::{ExportedLexicon, ExportedScript, InstanceExport};
use crate::api::admin::lexicons::differences;
use belvedere_storage::store::lexicons::MANUAL;

/// The differences, as lines for people.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    pub lines: Vec<String>,
    pub equal: usize,
    pub different: usize,
}

/// # Errors
/// When a lexicon's document can't be parsed.
pub(super) fn exports(old: &InstanceExport, new: &InstanceExport) -> serde_json::Result<Comparison> {
    let mut found = Comparison::default();
    found.compare("lexicon", lexicons(&old.lexicons)?, lexicons(&new.lexicons)?, places);
    found.compare("", scripts(&old.scripts), scripts(&new.scripts), script_lines);
    let settings = |export: &InstanceExport| export.settings.clone();
    found.compare("setting", settings(old), settings(new), |old, new| {
        vec![format!("{} → {}", json!(old), json!(new))]
    });
    Ok(found)
}

/// Leaves only what the folder of an app has, for a comparison with one: neither settings of the instance, nor descriptions, nor
/// lexicons that follow the network and are no files.
pub(super) fn keep_parts_of_folders(old: &mut InstanceExport, new: &mut InstanceExport) {
    let ids = |export: &InstanceExport| -> HashSet<String> {
        export.lexicons.iter().map(|lexicon| lexicon.id.clone()).collect()
    };
    let (in_old, in_new) = (ids(old), ids(new));
    for (export, others) in [(old, in_new), (new, in_old)] {
        export.settings.clear();
        export.scripts.iter_mut().for_each(|script| script.description = None);
        export.lexicons.retain(|lexicon| lexicon.source == MANUAL || others.contains(&lexicon.id));
        export.lexicons.iter_mut().for_each(|lexicon| MANUAL.clone_into(&mut lexicon.source));
    }
}

impl Comparison {
    /// Compares the parts of one kind. `differences` describes two that are not equal.
    fn compare<T: PartialEq>(
        &mut self,
        kind: &str,
        mut old: BTreeMap<String, T>,
        new: BTreeMap<String, T>,
        differences: impl Fn(&T, &T) -> Vec<String>,
    ) {
        let named = |id: &str| format!("{kind} {id}").trim_start().to_owned();
        for (id, new) in new {
            match old.remove(&id) {
                Some(old) if old == new => self.equal += 1,
                Some(old) => {
                    self.different += 1;
                    self.lines.push(format!("different: {}", named(&id)));
                    self.lines.extend(differences(&old, &new).iter().map(|line| format!("  {line}")));
                }
                None => {
                    self.different += 1;
                    self.lines.push(format!("only in the second: {}", named(&id)));
                }
            }
        }
        self.different += old.len();
        self.lines.extend(old.into_keys().map(|id| format!("only in the first: {}", named(&id))));
    }
}

/// The lexicons by id, each as one document with what is stored beside it.
fn lexicons(all: &[ExportedLexicon]) -> serde_json::Result<BTreeMap<String, Value>> {
    let whole = |lexicon: &ExportedLexicon| {
        let document: Value = serde_json::from_str(lexicon.lexicon_json.get())?;
        let whole = json!({
            "source": lexicon.source,
            "target_collection": lexicon.target_collection,
            "action": lexicon.action,
            "token_cost": lexicon.token_cost,
            "lexicon_json": document,
        });
        Ok((lexicon.id.clone(), whole))
    };
    all.iter().map(whole).collect()
}

pub(in crate::cli) fn places(old: &Value, new: &Value) -> Vec<String> {
    let (found, left_out) = differences::of(old, new);
    let mut lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    if left_out > 0 {
        lines.push(format!("and {} more", count(left_out, "difference")));
    }
    lines
}

/// The scripts and views by id, which names their kind: body and description.
fn scripts(all: &[ExportedScript]) -> BTreeMap<String, (String, Option<String>)> {
    let parts = |script: &ExportedScript| (script.body.clone(), script.description.clone());
    all.iter().map(|script| (script.id.clone(), parts(script))).collect()
}

fn script_lines(
    (old, old_description): &(String, Option<String>),
    (new, new_description): &(String, Option<String>),
) -> Vec<String> {
    let mut lines = Vec::new();
    if old != new {
        lines.push(first_line(old, new));
    }
    if old_description != new_description {
        lines.push(format!("description: {} → {}", json!(old_description), json!(new_description)));
    }
    lines
}

/// Says where two bodies begin to differ.
pub(in crate::cli) fn first_line(old: &str, new: &str) -> String {
    let equal = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let of = |text: &str| count(text.lines().count(), "line");
    format!("from line {} on ({} → {})", equal + 1, of(old), of(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(lexicons: &Value, scripts: &Value, settings: &Value) -> InstanceExport {
        let document = json!({ "format": 1, "version": "1", "did": "did:web:a", "url": "https://a",
            "exported_at": "", "lexicons": lexicons, "scripts": scripts, "settings": settings });
        serde_json::from_str(&document.to_string()).unwrap()
    }

    fn lexicon(id: &str, cost: u32, kind: &str) -> Value {
        json!({ "id": id, "source": "manual", "target_collection": null, "action": null, "token_cost": cost,
            "lexicon_json": { "id": id, "kind": kind } })
    }

    #[test]
    fn a_folder_is_compared_in_what_it_has() {
        let script =
            |description: Value| json!({ "id": "job.run:a", "description": description, "body": "x" });
        let network = |id: &str| {
            let mut lexicon = lexicon(id, 1, "x");
            lexicon["source"] = json!("network");
            lexicon
        };
        let mut folder = export(
            &json!([lexicon("com.example.a", 1, "x"), lexicon("com.example.b", 1, "x")]),
            &json!([script(json!(null))]),
            &json!({}),
        );
        let mut instance = export(
            &json!([network("com.example.a"), lexicon("com.example.b", 1, "x"), network("com.example.c")]),
            &json!([script(json!("Every night"))]),
            &json!({ "app_name": "A" }),
        );
        keep_parts_of_folders(&mut folder, &mut instance);
        let found = exports(&folder, &instance).unwrap();
        assert_eq!((found.lines, found.equal, found.different), (vec![], 3, 0));
    }

    #[test]
    fn parts_are_equal_different_or_only_in_one() {
        let script = |id: &str, body: &str| json!({ "id": id, "description": null, "body": body });
        let old = export(
            &json!([lexicon("com.example.a", 1, "x"), lexicon("com.example.b", 1, "x")]),
            &json!([script("xrpc.query:com.example.b", "a\nb\nc"), script("job.run:same", "x")]),
            &json!({ "app_name": "A", "tos_uri": "https://a" }),
        );
        let new = export(
            &json!([lexicon("com.example.b", 2, "y"), lexicon("com.example.c", 1, "x")]),
            &json!([script("xrpc.query:com.example.b", "a\nB"), script("job.run:same", "x")]),
            &json!({ "app_name": "B" }),
        );
        let found = exports(&old, &new).unwrap();
        let lines = [
            "different: lexicon com.example.b",
            "  /lexicon_json/kind: \"x\" → \"y\"",
            "  /token_cost: 1 → 2",
            "only in the second: lexicon com.example.c",
            "only in the first: lexicon com.example.a",
            "different: xrpc.query:com.example.b",
            "  from line 2 on (3 lines → 2 lines)",
            "different: setting app_name",
            "  \"A\" → \"B\"",
            "only in the first: setting tos_uri",
        ];
        assert_eq!((found.lines, found.equal, found.different), (lines.map(str::to_owned).to_vec(), 1, 6));
        let same = exports(&old, &old).unwrap();
        assert_eq!((same.lines, same.equal, same.different), (vec![], 6, 0));
    }
}
