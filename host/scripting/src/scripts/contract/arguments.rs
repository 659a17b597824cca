//! The arguments of a v3 script's `handle(input, ctx)`.

use serde_json::{Map, Value};

use crate::scripts::Variables;
use crate::scripts::invocation::{Invocation, TriggerEvent, field, render_params, text};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::{Trigger, TriggerKind};

impl Invocation<'_> {
    /// The JSON object with the fields `input` and `ctx`. Fields that do not apply are absent.
    pub(in crate::scripts) fn arguments(
        &self,
        trigger: &Trigger,
        env: &Variables,
        space: Option<&Value>,
        has_session: bool,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + self.input.map_or(0, <[u8]>::len));
        out.extend_from_slice(b"{\"ctx\":{\"env\":");
        env.render(&mut out);
        field(&mut out, "has_pds_auth");
        out.extend_from_slice(if has_session { b"true" } else { b"false" });
        let caller = self.caller.and_then(|caller| caller.did.as_ref()).map(Did::as_str);
        let caller = match self.event {
            Some(TriggerEvent::Record { did, .. }) => Some(did),
            Some(TriggerEvent::Label { .. } | TriggerEvent::Change { .. }) => None,
            None => caller,
        };
        for (name, value) in [
            ("trigger", Some(trigger.id())),
            ("method", self.method),
            ("collection", self.collection),
            ("caller_did", caller),
            ("delegate_did", self.delegate.map(Did::as_str)),
        ] {
            if let Some(value) = value {
                field(&mut out, name);
                text(&mut out, value);
            }
        }
        let is_query = trigger.kind() == TriggerKind::Query;
        if !is_query && (self.values.is_some() || self.params.is_some()) {
            field(&mut out, "params");
            self.render_parameters(&mut out);
        }
        if let Some(space) = space {
            field(&mut out, "space");
            let names = [
                ("uri", "space"),
                ("id", "space_id"),
                ("did", "did"),
                ("authority_did", "authority_did"),
                ("spaceType", "type_nsid"),
                ("skey", "skey"),
            ];
            let space: Map<String, Value> =
                names.into_iter().map(|(name, v2)| (name.to_owned(), space[v2].clone())).collect();
            // Writing to a Vec can't fail.
            let _ = serde_json::to_writer(&mut out, &space);
        }
        if let Some((id, _)) = self.job {
            field(&mut out, "job");
            out.extend_from_slice(b"{\"id\":");
            text(&mut out, id);
            out.push(b'}');
        }
        out.push(b'}');
        if is_query {
            field(&mut out, "input");
            self.render_parameters(&mut out);
        } else if let Some(input) = self.input.or(self.job.map(|(_, input)| input)) {
            field(&mut out, "input");
            out.extend_from_slice(input);
        } else if let Some(TriggerEvent::Change { event }) = self.event {
            field(&mut out, "input");
            out.extend_from_slice(event);
        } else if let Some(event) = &self.event {
            field(&mut out, "input");
            let start = out.len();
            event.render(&mut out);
            if matches!(event, TriggerEvent::Record { .. }) {
                field(&mut out, "collection");
                text(&mut out, self.collection.unwrap_or_default());
            }
            out.push(b'}');
            // In place of the comma that precedes each field.
            out[start] = b'{';
        }
        out.push(b'}');
        out
    }

    fn render_parameters(&self, out: &mut Vec<u8>) {
        match self.values {
            // Writing to a Vec can't fail.
            Some(values) => drop(serde_json::to_writer(&mut *out, values)),
            None => render_params(out, self.params.unwrap_or_default()),
        }
    }
}
