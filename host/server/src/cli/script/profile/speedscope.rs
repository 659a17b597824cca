//! A profile in the file format of speedscope (<https://www.speedscope.app/file-format-schema.json>).

use std::collections::HashMap;

use belvedere_scripting::scripts::RunProfile;
use serde::Serialize;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
pub(super) struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared<'a>,
    profiles: [Sampled; 2],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame<'a> {
    name: &'a str,
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// A stack for each place, with what the place itself used.
#[derive(Serialize)]
struct Sampled {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start_value: u64,
    #[serde(rename = "endValue")]
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// The profile by instructions and by time. The time of a place is that of its calls of the host, and its part of `cpu_us` by
/// instructions.
pub(super) fn file<'a>(trigger: &'a str, profile: &'a RunProfile, cpu_us: f64) -> File<'a> {
    let (mut frames, mut known) = (Vec::new(), HashMap::new());
    let frame_of: Vec<usize> = profile
        .places
        .iter()
        .map(|place| {
            let line = (place.line > 0).then_some(place.line);
            let frame = Frame { name: &place.function, file: &place.file, line };
            *known.entry(frame.clone()).or_insert_with(|| {
                frames.push(frame);
                frames.len() - 1
            })
        })
        .collect();
    let total = profile.total().instructions.max(1) as f64;
    let sampled = |name, unit, weight: &dyn Fn(usize) -> u64| {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for at in 0..profile.places.len() {
            let weight = weight(at);
            if weight > 0 {
                let stack = profile.stack(at as u32);
                samples.push(stack.into_iter().map(|place| frame_of[place as usize]).collect());
                weights.push(weight);
            }
        }
        Sampled {
            kind: "sampled",
            name,
            unit,
            start_value: 0,
            end_value: weights.iter().sum(),
            samples,
            weights,
        }
    };
    let cost = |at: usize| &profile.places[at].cost;
    let time = |at| cost(at).host_us + (cpu_us * cost(at).instructions as f64 / total).round() as u64;
    let profiles = [
        sampled("instructions", "none", &|at| cost(at).instructions),
        sampled("time", "microseconds", &time),
    ];
    File { schema: SCHEMA, exporter: "belvedere", name: trigger, shared: Shared { frames }, profiles }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_scripting::scripts::{ProfileCost, ProfilePlace};
    use serde_json::json;

    #[test]
    fn a_place_is_a_stack_with_its_own_weight() {
        let place = |caller, function: &str, line, instructions, host_us| ProfilePlace {
            caller,
            function: function.to_owned(),
            file: "lib:a".to_owned(),
            line,
            cost: ProfileCost { instructions, host_us, ..ProfileCost::default() },
        };
        let places = vec![
            place(None, "handle", 2, 30, 0),
            place(Some(0), "query", 0, 10, 500),
            place(None, "handle", 3, 0, 0),
        ];
        let profile = RunProfile { places, ..RunProfile::default() };
        let written = json!(file("lib:a", &profile, 40.0));
        assert_eq!(
            written["shared"]["frames"],
            json!([
                { "name": "handle", "file": "lib:a", "line": 2 },
                { "name": "query", "file": "lib:a" },
                { "name": "handle", "file": "lib:a", "line": 3 },
            ])
        );
        let [instructions, time] = [&written["profiles"][0], &written["profiles"][1]];
        assert_eq!(instructions["samples"], json!([[0], [0, 1]]));
        assert_eq!((&instructions["weights"], &instructions["endValue"]), (&json!([30, 10]), &json!(40)));
        assert_eq!((&time["weights"], &time["unit"]), (&json!([30, 510]), &json!("microseconds")));
    }
}
