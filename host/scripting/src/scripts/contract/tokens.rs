//! The tokens of a source: names, quoted strings as `""`, and punctuation.

use crate::scripts::mentions::{Place, is_name, skip_comment, skip_long_string, string_literal};

/// Punctuation of several characters that is one token here.
const LONG: [&str; 6] = ["...", "..", "==", "~=", "<=", ">="];

/// The tokens of a source, each with the number of its first byte.
pub(super) struct Tokens<'a> {
    source: &'a str,
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        Self { source, rest: source }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (&'a str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rest = self.rest.trim_start();
            match skip_comment(self.rest) {
                Some(after) => self.rest = after,
                None => break,
            }
        }
        let (rest, at) = (self.rest, self.source.len() - self.rest.len());
        let first = rest.chars().next()?;
        if let Some(after) = skip_long_string(rest) {
            self.rest = after;
            return Some(("\"\"", at));
        }
        if first == '"' || first == '\'' {
            self.rest = string_literal(rest).1;
            return Some(("\"\"", at));
        }
        let length = if is_name(first) {
            rest.find(|c| !is_name(c)).unwrap_or(rest.len())
        } else {
            LONG.iter().find(|long| rest.starts_with(**long)).map_or(first.len_utf8(), |long| long.len())
        };
        let (token, after) = rest.split_at(length);
        self.rest = after;
        Some((token, at))
    }
}

/// The names in a list that ends with `)`, after its `(`.
pub(super) fn parameters<'a>(tokens: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = tokens.take_while(|token| *token != ")").collect();
    names.retain(|token| token.chars().all(is_name));
    names
}

/// The parameters of the global function `handle`; none if there is no such function.
pub(super) fn handle_parameters(source: &str) -> Vec<&str> {
    let tokens: Vec<&str> = Tokens::of(source).map(|(token, _)| token).collect();
    let mut place = Place::default();
    for (at, token) in tokens.iter().enumerate() {
        if place.begins_global() {
            let list = match &tokens[at..] {
                ["function", "handle", "(", list @ ..] | ["handle", "=", "function", "(", list @ ..] => {
                    Some(list)
                }
                _ => None,
            };
            if let Some(list) = list {
                return parameters(list.iter().copied());
            }
        }
        place.pass(token);
    }
    Vec::new()
}
