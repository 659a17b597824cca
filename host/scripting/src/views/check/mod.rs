//! Compares a view with the lexicon of its method: the parameters that it uses, and the output that it makes.

mod output;

use std::collections::HashMap;

use serde_json::Value;

use self::output::Shapes;
use super::offence::Offences;
use super::parameters::{Form, ParameterUse};
use super::plan::{Insert, Source, Template, View};

/// The documents of lexicons, by NSID.
pub type Documents = HashMap<String, Value>;

/// Checks a view against the lexicon of its method.
///
/// # Errors
/// All differences.
pub fn check(view: &View, method: &str, documents: &Documents) -> Result<(), Offences> {
    let mut offences = Offences::default();
    compare(view, method, documents, &mut offences);
    offences.into_result(Some(()))
}

fn compare(view: &View, method: &str, documents: &Documents, offences: &mut Offences) {
    let Some(document) = documents.get(method) else {
        offences
            .add("", format!("{method} has no lexicon here: upload it first, a view is checked against it"));
        return;
    };
    let main = &document["defs"]["main"];
    if main["type"] != "query" {
        offences.add("", format!("the lexicon {method} is not that of a query, so no view can answer it"));
        return;
    }
    let declared = &main["parameters"]["properties"];
    for used in view.parameters() {
        check_parameter(used, &declared[used.name], offences);
    }
    if matches!(view.source, Source::List { .. })
        && has_cursor(&view.output)
        && declared["cursor"]["type"] != "string"
    {
        let text = "the output has a @cursor: declare a parameter cursor of type string in the lexicon";
        offences.add("output", text);
    }
    let schema = &main["output"]["schema"];
    if schema.is_null() {
        offences.add("output", "the lexicon declares no output with a schema");
        return;
    }
    Shapes::new(documents, offences).compare(view, schema, method);
}

fn check_parameter(
    ParameterUse { name, form, at }: ParameterUse<'_>,
    declared: &Value,
    offences: &mut Offences,
) {
    let Some(kind) = declared["type"].as_str() else {
        offences.add(at, format!("the lexicon declares no parameter {name}"));
        return;
    };
    let (fits, wanted) = match form {
        Form::Scalar => (kind != "array", "not an array: use in for a list of values"),
        Form::Array => (kind == "array", "an array: use eq for one value"),
        Form::Account => (
            kind == "string" || kind == "array" && declared["items"]["type"] == "string",
            "a string (format at-identifier), or an array of them",
        ),
        Form::Uri => (kind == "string", "a string (format at-uri)"),
        Form::Number => (kind == "integer", "an integer"),
        Form::Time => (kind == "string", "a string (format datetime)"),
    };
    if !fits {
        offences.add(at, format!("the lexicon declares {name} as {kind}, and here it has to be {wanted}"));
    }
}

fn has_cursor(template: &Template) -> bool {
    match template {
        Template::Insert(insert) => matches!(insert, Insert::Cursor | Insert::PreviousCursor),
        Template::Object { fields, .. } => fields.iter().any(|(_, field)| has_cursor(field)),
        Template::Array(elements) => elements.iter().any(has_cursor),
        Template::Constant(_) | Template::Rows(_) => false,
    }
}
