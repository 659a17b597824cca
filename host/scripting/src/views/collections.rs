//! The collections whose records decide what a view shows.

use std::collections::BTreeSet;

use belvedere_protocol::atproto::Nsid;

use super::plan::{Addition, Hide, Kind, Source, View};

impl View {
    /// The collections that the document names. A record of any collection, which a parameter or a record names, is not among
    /// them, nor are profiles and labels.
    pub fn collections(&self) -> BTreeSet<Nsid> {
        let mut found = BTreeSet::new();
        match &self.source {
            Source::List { collection, linked_from } => {
                found.insert(collection.clone());
                found.extend(linked_from.iter().map(|(_, links)| links.collection.clone()));
            }
            Source::Record { collection, .. } => found.extend(collection.clone()),
            Source::Tree { links, .. } => {
                found.insert(links.collection.clone());
            }
        }
        let Hide { viewer, to_viewer, .. } = &self.hide;
        found.extend(viewer.iter().chain(to_viewer).cloned());
        add(&self.additions, &mut found);
        found
    }
}

fn add(additions: &[Addition], found: &mut BTreeSet<Nsid>) {
    for Addition { kind, .. } in additions {
        match kind {
            Kind::Follow { collection, .. } => found.extend(collection.clone()),
            Kind::List { collection, .. } | Kind::Record { collection, .. } => {
                found.insert(collection.clone());
            }
            Kind::Count { links, .. } | Kind::Mine { links, .. } => {
                found.insert(links.collection.clone());
            }
            Kind::Profile { .. } | Kind::Labels { .. } => {}
        }
        if let Some(joined) = kind.joined() {
            add(&joined.additions, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::views::compile;

    #[test]
    fn every_part_of_a_document_counts() {
        let view = compile(
            r#"{ "view": 1, "from": "com.example.note", "hide": ["viewer:com.example.block", "toViewer:com.example.mute"],
                "with": { "likes": { "count": "com.example.like" },
                          "author": { "profile": "did" } },
                "output": { "notes": [{ "uri": "@uri" }] } }"#,
        );
        let view = view.unwrap_or_else(|offences| panic!("{offences}"));
        let found: Vec<String> = view.collections().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["com.example.block", "com.example.like", "com.example.mute", "com.example.note"]);
    }
}
