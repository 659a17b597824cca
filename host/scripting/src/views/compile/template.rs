//! Compiles `output`.

use serde_json::{Value, json};

use belvedere_storage::query::Path;

use crate::views::offence::Offences;
use crate::views::plan::{Addition, Group, Insert, Source, Subject, Template};

/// The form of a joined record without an `output`.
pub(super) fn record() -> Value {
    json!({ "uri": "@uri", "cid": "@cid", "did": "@did", "indexedAt": "@indexedAt", "record": "@record" })
}

/// The form of a profile without an `output`.
pub(super) fn profile() -> Value {
    json!({ "did": "@did", "handle": "@handle", "displayName": "@field:displayName", "avatar": "@blob:avatar" })
}

/// The texts that can be inserted at a place.
#[derive(Clone, Copy)]
struct Scope<'a> {
    additions: &'a [Addition],
    /// Around the rows of a page.
    is_page: bool,
    is_profile: bool,
    is_tree: bool,
    /// The keys of rows that are groups.
    group: Option<&'a Group>,
}

/// The form of the whole answer.
pub(super) fn of_answer(
    output: &Value,
    source: &Source,
    group: Option<&Group>,
    additions: &[Addition],
    offences: &mut Offences,
) -> Option<Template> {
    let is_list = matches!(source, Source::List { .. });
    let is_tree = matches!(source, Source::Tree { .. });
    if !output.is_object() {
        offences.add("output", "it is an object, as the output of every method");
        return None;
    }
    let mut reader = Reader { rows: 0, children: 0, offences };
    let scope = Scope { additions, is_page: is_list, is_profile: false, is_tree, group };
    let template = reader.template(output, scope, "output")?;
    let (rows, children) = (reader.rows, reader.children);
    if is_list && rows != 1 {
        offences
            .add("output", "it has exactly one array of one element, the form of a row: \"feed\": [ { … } ]");
    }
    if is_tree && children != 1 {
        offences.add("output", "the form of a record of a tree has one field with the value @children");
    }
    Some(template)
}

/// The form of a joined row.
pub(super) fn of_row(
    output: &Value,
    additions: &[Addition],
    is_profile: bool,
    at: &str,
    offences: &mut Offences,
) -> Option<Template> {
    let scope = Scope { additions, is_page: false, is_profile, is_tree: false, group: None };
    Reader { rows: 0, children: 0, offences }.template(output, scope, at)
}

struct Reader<'a> {
    /// The arrays of rows, and the places of the records below one, so far.
    rows: usize,
    children: usize,
    offences: &'a mut Offences,
}

impl Reader<'_> {
    fn template(&mut self, value: &Value, scope: Scope<'_>, at: &str) -> Option<Template> {
        match value {
            Value::Object(object) => {
                let before = self.children;
                let mut fields = Vec::with_capacity(object.len());
                let mut is_node = false;
                for (name, value) in object {
                    is_node |= value == "@children";
                    let field = self.template(value, scope, &format!("{at}.{name}"));
                    fields.extend(field.map(|field| (json!(name).to_string(), field)));
                }
                is_node &= self.children > before;
                Some(Template::Object { fields, is_node })
            }
            Value::Array(elements) => match elements.as_slice() {
                [row] if scope.is_page => {
                    self.rows += 1;
                    let scope = Scope { is_page: false, ..scope };
                    Some(Template::Rows(Box::new(self.template(row, scope, &format!("{at}[0]"))?)))
                }
                elements => {
                    let mut templates = Vec::with_capacity(elements.len());
                    for (n, element) in elements.iter().enumerate() {
                        if element == "@children" {
                            self.offences
                                .add(at, "@children is an array of its own: write it without brackets");
                        }
                        templates.extend(self.template(element, scope, &format!("{at}[{n}]")));
                    }
                    Some(Template::Array(templates))
                }
            },
            Value::String(text) => match text.strip_prefix('@') {
                // @@ begins a text with one @.
                Some(rest) if rest.starts_with('@') => Some(Template::Constant(json!(rest).to_string())),
                Some(name) => self.insert(name, scope, at).map(Template::Insert),
                None => Some(Template::Constant(value.to_string())),
            },
            constant => Some(Template::Constant(constant.to_string())),
        }
    }

    fn insert(&mut self, name: &str, scope: Scope<'_>, at: &str) -> Option<Insert> {
        if scope.is_page {
            match (name, scope.group) {
                ("cursor" | "prevCursor", Some(_)) => {
                    self.offences.add(at, "groups have no cursor: a call gets the first rows in their order");
                    return None;
                }
                ("cursor", None) => return Some(Insert::Cursor),
                ("prevCursor", None) => return Some(Insert::PreviousCursor),
                _ => {}
            }
            let text = format!(
                "@{name} belongs to a row: only @cursor and @prevCursor can stand outside of its array"
            );
            self.offences.add(at, text);
            return None;
        }
        if let Some(group) = scope.group {
            return self.of_group(name, group, scope.additions, at);
        }
        if let Some((kind, path)) = name.split_once(':') {
            let path = Path::parse(path).map_err(|error| format!("{path:?} is {error}"));
            let path = self.offences.check(at, path)?;
            match kind {
                "field" => return Some(Insert::Field(path)),
                "blob" => return Some(Insert::Blob(path)),
                _ => {}
            }
        }
        let row = match name {
            "uri" => Some(Insert::Uri),
            "cid" => Some(Insert::Cid),
            "did" => Some(Insert::Did),
            "rkey" => Some(Insert::Rkey),
            "indexedAt" => Some(Insert::IndexedAt),
            "record" => Some(Insert::Record),
            "handle" if scope.is_profile => Some(Insert::Handle),
            "children" if scope.is_tree => {
                self.children += 1;
                Some(Insert::Children)
            }
            name => addition(name, scope.additions),
        };
        if row.is_none() {
            let text = if name == "handle" {
                "only a profile has a @handle: add one with { \"profile\": \"did\" }".to_owned()
            } else {
                format!(
                    "@{name} is neither a field of the row (@uri, @cid, @did, @rkey, @indexedAt, @record, @field:PATH, \
                     @blob:PATH) nor an addition"
                )
            };
            self.offences.add(at, text);
        }
        row
    }

    /// A value of a row that is a group.
    fn of_group(&mut self, name: &str, group: &Group, additions: &[Addition], at: &str) -> Option<Insert> {
        let field = name.strip_prefix("field:").and_then(|path| Path::parse(path).ok());
        let found = match name {
            "count" => Some(Insert::Count),
            "did" if group.has(&Subject::Did) => Some(Insert::Did),
            "indexedAt" if group.has_time() => Some(Insert::IndexedAt),
            name => match field {
                Some(path) => group.has(&Subject::Field(path.clone())).then_some(Insert::Field(path)),
                None => addition(name, additions),
            },
        };
        if found.is_none() {
            let text = format!(
                "@{name} is neither @count, nor a value that group.by names (@field:PATH, @did, @indexedAt), nor an addition"
            );
            self.offences.add(at, text);
        }
        found
    }
}

/// The addition with this name, or the additions of the group with it.
fn addition(name: &str, additions: &[Addition]) -> Option<Insert> {
    if let Some(at) = additions.iter().position(|addition| addition.name == name) {
        return Some(Insert::Addition(at));
    }
    let member = |(at, addition): (usize, &Addition)| {
        let (group, member) = addition.name.split_once('.')?;
        (group == name).then(|| (json!(member).to_string(), at))
    };
    let members: Vec<_> = additions.iter().enumerate().filter_map(member).collect();
    (!members.is_empty()).then_some(Insert::Group(members))
}
