//! Writes the answer of a view into one buffer. The text of a record is copied as it is stored.

use bytes::Bytes;
use serde::Serialize;

use belvedere_instance::blob_hosts::BlobHosts;
use belvedere_protocol::atproto::blobs;
use belvedere_storage::store::labels::ActiveLabel;

use super::level::{Column, Level, Row};
use super::limits;
use super::plan::{Addition, Insert, Template, View};

/// The handle of an account without a verified one, as the protocol has it.
const NO_HANDLE: &str = "handle.invalid";

/// The rows of an answer.
pub(super) struct Page<'a> {
    pub(super) level: &'a Level,
    pub(super) cursor: Option<&'a str>,
    pub(super) previous: Option<&'a str>,
    /// The positions of the records below each record of a tree.
    pub(super) children: &'a [Vec<usize>],
    pub(super) hosts: &'a BlobHosts,
}

pub(super) fn write(view: &View, page: &Page<'_>) -> Bytes {
    let mut writer = Writer { out: Vec::with_capacity(4_096), page };
    let place = Place { level: page.level, additions: &view.additions, row: 0, node: None };
    writer.template(&view.output, place);
    writer.out.into()
}

struct Writer<'a> {
    out: Vec<u8>,
    page: &'a Page<'a>,
}

/// The row that is written, and its level.
#[derive(Clone, Copy)]
struct Place<'a> {
    level: &'a Level,
    additions: &'a [Addition],
    row: usize,
    /// The form of each record of a tree.
    node: Option<&'a Template>,
}

impl<'a> Place<'a> {
    fn row(self) -> Option<&'a Row> {
        self.level.rows.get(self.row)
    }
}

impl<'a> Writer<'a> {
    /// Writes a value. Returns `false` and writes nothing if the row has none.
    fn template(&mut self, template: &'a Template, place: Place<'a>) -> bool {
        match template {
            Template::Constant(text) => {
                self.out.extend(text.as_bytes());
                true
            }
            Template::Object { fields, is_node } => {
                let node = if *is_node { Some(template) } else { place.node };
                let place = Place { node, ..place };
                let fields = fields.iter().map(|(name, field)| (name.as_str(), field));
                self.object(fields, |writer, field| writer.template(field, place));
                true
            }
            Template::Array(elements) => {
                self.array(elements.iter().map(|element| (element, place)));
                true
            }
            Template::Rows(row) => {
                let rows = 0..place.level.rows.len();
                self.array(rows.map(|number| (row.as_ref(), Place { row: number, ..place })));
                true
            }
            Template::Insert(insert) => self.insert(insert, place),
        }
    }

    /// Writes the members of an object that have a value.
    fn object<T>(
        &mut self,
        members: impl Iterator<Item = (&'a str, T)>,
        write: impl FnMut(&mut Self, T) -> bool,
    ) {
        let named = members.map(|(name, member)| (Some(name), member));
        self.list(*b"{}", named, write);
    }

    fn array(&mut self, elements: impl Iterator<Item = (&'a Template, Place<'a>)>) {
        let elements = elements.map(|element| (None, element));
        self.list(*b"[]", elements, |writer, (element, place)| writer.template(element, place));
    }

    /// Writes the items that have a value, between two brackets.
    fn list<T>(
        &mut self,
        [open, close]: [u8; 2],
        items: impl Iterator<Item = (Option<&'a str>, T)>,
        mut write: impl FnMut(&mut Self, T) -> bool,
    ) {
        self.out.push(open);
        let mut is_first = true;
        for (name, item) in items {
            let before = self.out.len();
            if !is_first {
                self.out.push(b',');
            }
            if let Some(name) = name {
                self.out.extend(name.as_bytes());
                self.out.push(b':');
            }
            if write(self, item) {
                is_first = false;
            } else {
                self.out.truncate(before);
            }
        }
        self.out.push(close);
    }

    fn insert(&mut self, insert: &'a Insert, place: Place<'a>) -> bool {
        match insert {
            Insert::Cursor => return self.text(self.page.cursor),
            Insert::PreviousCursor => return self.text(self.page.previous),
            _ => {}
        }
        let Some(row) = place.row() else { return false };
        let record = row.record.as_ref();
        match insert {
            Insert::Cursor | Insert::PreviousCursor => false,
            Insert::Count => self.value(row.group.as_ref().map(|group| &group.count)),
            Insert::Did => self.text(Some(&row.did)),
            Insert::Handle => self.text(Some(row.handle.as_deref().unwrap_or(NO_HANDLE))),
            Insert::Uri => self.text(row.uri().as_deref()),
            Insert::Rkey => self.text(record.map(|record| record.rkey.as_str())),
            Insert::Cid => {
                self.text(record.and_then(|record| record.cid).map(|cid| cid.to_string()).as_deref())
            }
            Insert::IndexedAt => match &row.group {
                Some(group) => self.text(group.indexed_at.as_deref()),
                None => self.text(record.map(|record| record.indexed_at.to_string()).as_deref()),
            },
            Insert::Record => match record {
                Some(record) => {
                    self.out.extend(&record.record);
                    true
                }
                None => false,
            },
            Insert::Field(path) => self.value(row.field(path)),
            Insert::Blob(path) => {
                let url = row.field(path).and_then(|blob| {
                    let cid = blob.pointer("/ref/$link").or_else(|| blob.get("cid"))?.as_str()?;
                    Some(blobs::url(self.page.hosts.get(&row.did)?, &row.did, cid))
                });
                self.text(url.as_deref())
            }
            Insert::Addition(number) => self.addition(*number, place),
            Insert::Group(members) => {
                let members = members.iter().map(|(name, number)| (name.as_str(), *number));
                self.object(members, |writer, number| writer.addition(number, place));
                true
            }
            Insert::Children => {
                self.children(place);
                true
            }
        }
    }

    fn addition(&mut self, number: usize, place: Place<'a>) -> bool {
        if self.out.len() > limits::ANSWER_BYTES {
            return false;
        }
        let (Some(addition), Some(column)) = (place.additions.get(number), place.level.columns.get(number))
        else {
            return false;
        };
        match column {
            Column::Counts(counts) => self.value(counts.get(place.row)),
            Column::Uris(uris) => self.text(uris.get(place.row).and_then(Option::as_deref)),
            Column::One(level, of_row) => {
                let row = of_row.get(place.row).copied().flatten();
                match (row, addition.kind.joined()) {
                    (Some(row), Some(joined)) => {
                        let below = Place { level, additions: &joined.additions, row, node: None };
                        self.template(&joined.output, below)
                    }
                    _ => false,
                }
            }
            Column::Many(level, of_row) => {
                let rows = of_row.get(place.row).map(Vec::as_slice).unwrap_or_default();
                let Some(joined) = addition.kind.joined() else { return false };
                let below =
                    |row: &usize| Place { level, additions: &joined.additions, row: *row, node: None };
                self.array(rows.iter().map(|row| (&joined.output, below(row))));
                true
            }
            Column::Labels(labels) => {
                self.labels(labels.get(place.row), place.row());
                true
            }
        }
    }

    /// A self-label is as old as the record that has it.
    fn labels(&mut self, labels: Option<&(String, Vec<ActiveLabel>)>, row: Option<&Row>) {
        let of_record = || row.and_then(|row| Some(row.record.as_ref()?.indexed_at.to_string()));
        let labels = labels.map(|(uri, labels)| {
            let shown = labels.iter().map(|label| LabelView {
                src: &label.src,
                uri,
                val: &label.val,
                cts: label.cts.map(|cts| cts.to_string()).or_else(of_record).unwrap_or_default(),
            });
            shown.collect::<Vec<_>>()
        });
        self.value(Some(&labels.unwrap_or_default()));
    }

    /// The records below a record of a tree.
    fn children(&mut self, place: Place<'a>) {
        let page = self.page;
        let children = page.children.get(place.row).map(Vec::as_slice).unwrap_or_default();
        let below = |row: &usize| Some((place.node?, Place { row: *row, ..place }));
        self.array(children.iter().filter_map(below));
    }

    fn text(&mut self, text: Option<&str>) -> bool {
        self.value(text.as_ref())
    }

    fn value<T: Serialize>(&mut self, value: Option<&T>) -> bool {
        // Writing into a Vec does not fail.
        value.is_some_and(|value| serde_json::to_writer(&mut self.out, value).is_ok())
    }
}

/// A label as answers of the protocol have it.
#[derive(Serialize)]
struct LabelView<'a> {
    src: &'a str,
    uri: &'a str,
    val: &'a str,
    cts: String,
}
