//! The comments are sentences in plain words, see `docs/contributing.md`. This finds the patterns that were frequent
//! here: sentences without a main clause, and pronouns in place of the role's name.

use crate::docs::root;
use crate::layers::files;

enum Pattern {
    /// The sentence begins with one of these words.
    Begins(&'static [&'static str]),
    /// The sentence begins with this word and has no comma, so no main clause follows; or it begins with "As" and code.
    /// Sections such as `# Errors` may continue their heading in this way.
    BeginsAlone(&'static str),
    /// The sentence contains one of these sequences of words.
    Contains(&'static [&'static str]),
}
use Pattern::{Begins, BeginsAlone, Contains};

/// The patterns with their remedies.
const RULES: &[(Pattern, &str)] = &[
    (Begins(&["What", "Of", "Which", "That which"]), "name the thing: \"The scopes of a session\""),
    (Begins(&["Who", "Whose", "Whom"]), "name the role: \"The caller of a method\""),
    (Begins(&["How"]), "name the quantity or the way: \"Maximum depth of a value\", \"Number of rows\""),
    (Begins(&["Why"]), "\"Error for a text that is no DID\", \"The reason why a call failed\""),
    (Begins(&["Where"]), "name the place: \"The path of a value\"; a condition begins with \"If\""),
    (BeginsAlone("When"), "name the time: \"The time at which a session ends\""),
    (BeginsAlone("As"), "\"Like [`open`], without tables\", or a main clause"),
    (
        Contains(&["whoever", "whomever", "nobody", "somebody", "stranger", "strangers"]),
        "name the role: client, caller, operator, PDS",
    ),
    (Contains(&["anew"]), "\"again\""),
    (
        Contains(&["is told", "are told", "was told", "were told", "be told", "been told", "told so"]),
        "name the message: \"the caller receives 404\"",
    ),
    (Contains(&["hears of", "hear of", "heard of"]), "name the message: \"another host receives a notice\""),
    (Contains(&["its business", "else's business", "speaks for", "speak for"]), "say it literally"),
    (Contains(&["on their way", "on its way"]), "name the action: \"while they are sent\""),
    (Contains(&["as far as"]), "name the condition or the limit"),
    (Contains(&["in the meantime of"]), "\"during\""),
    (Contains(&["is none of", "is none that", "are none of"]), "\"is not one of\", \"does not\""),
];

#[derive(Default)]
struct Sentence {
    line: usize,
    text: String,
    /// In lower case, without punctuation; code is a backtick.
    words: Vec<String>,
    has_comma: bool,
    in_section: bool,
}

impl Sentence {
    /// The remedy for the first pattern that it has.
    fn remedy(&self) -> Option<&'static str> {
        let words = format!(" {} ", self.words.join(" "));
        let begins = |word: &str| self.text.starts_with(&format!("{word} "));
        let has = |pattern: &Pattern| match pattern {
            Begins(openings) => openings.iter().any(|word| begins(word)),
            BeginsAlone(word) => {
                let is_alone = !self.has_comma || words.starts_with(" as ` ");
                !self.in_section && begins(word) && is_alone
            }
            Contains(phrases) => phrases.iter().any(|phrase| words.contains(&format!(" {phrase} "))),
        };
        RULES.iter().find_map(|(pattern, remedy)| has(pattern).then_some(*remedy))
    }
}

/// Splits paragraphs into sentences.
#[derive(Default)]
struct Splitter {
    sentences: Vec<Sentence>,
    current: Sentence,
    in_code: bool,
    in_section: bool,
}

impl Splitter {
    fn add(&mut self, line: usize, text: &str) {
        for word in text.split_whitespace() {
            let has_ended = self.current.text.trim_end_matches([')', '"']).ends_with(['.', '?', '!']);
            let starts = word.trim_start_matches(['(', '"', '[']);
            if has_ended && !self.in_code && starts.starts_with(|c: char| c.is_uppercase() || c == '`') {
                self.end();
            }
            self.add_word(line, word);
        }
    }

    fn add_word(&mut self, line: usize, word: &str) {
        let sentence = &mut self.current;
        if sentence.text.is_empty() {
            (sentence.line, sentence.in_section) = (line, self.in_section);
        } else {
            sentence.text.push(' ');
        }
        sentence.text.push_str(word);
        let is_code = self.in_code || word.contains('`');
        self.in_code ^= word.matches('`').count() % 2 == 1;
        sentence.has_comma |= word.ends_with(',') && !self.in_code;
        let plain = word.to_lowercase().replace(|c: char| !c.is_alphanumeric() && c != '\'', "");
        sentence.words.push(if is_code { "`".to_owned() } else { plain });
    }

    /// Ends a sentence, also one without a full stop.
    fn end(&mut self) {
        let sentence = std::mem::take(&mut self.current);
        self.in_code = false;
        if !sentence.text.is_empty() {
            self.sentences.push(sentence);
        }
    }
}

/// The marker and the text of a line's comment, and whether code precedes it.
fn comment(line: &str) -> Option<(&'static str, &str, bool)> {
    let start = line.trim_start();
    for marker in ["///", "//!", "//"] {
        if let Some(text) = start.strip_prefix(marker) {
            return Some((marker, text.trim(), false));
        }
    }
    let (code, text) = line.rsplit_once(" // ")?;
    (code.matches('"').count() % 2 == 0).then_some(("//", text.trim(), true))
}

/// The sentences of all comments of a file, without blocks of code.
fn sentences(source: &str) -> Vec<Sentence> {
    let mut splitter = Splitter::default();
    let (mut last, mut in_block) = (None, false);
    for (line, content) in (1..).zip(source.lines()) {
        let comment = comment(content);
        let marker = comment.filter(|(_, _, is_trailing)| !is_trailing).map(|(marker, ..)| marker);
        if marker.is_none() || marker != last {
            splitter.end();
            (splitter.in_section, in_block) = (false, false);
        }
        last = marker;
        let Some((_, text, _)) = comment else { continue };
        let is_item = ["- ", "* ", "| ", "# "].iter().any(|start| text.starts_with(start))
            || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_item || text.is_empty() || text.starts_with("```") {
            splitter.end();
        }
        if text.starts_with("```") {
            in_block = !in_block;
        } else if text.starts_with("# ") {
            splitter.in_section = true;
        } else if !in_block {
            splitter.add(line, text.trim_start_matches(['-', '*', '|']).trim_start());
        }
    }
    splitter.end();
    splitter.sentences
}

#[test]
fn comments_are_plain_sentences() {
    let root = root();
    let (mut read, mut refused) = (0, Vec::new());
    for file in ["host", "guest-lua", "plugins", "tests"].iter().flat_map(|folder| files(&root.join(folder)))
    {
        let path = file.strip_prefix(&root).unwrap();
        for sentence in sentences(&std::fs::read_to_string(&file).unwrap()) {
            read += 1;
            if let Some(remedy) = sentence.remedy() {
                refused.push(format!(
                    "{}:{}: {}\n    {remedy}",
                    path.display(),
                    sentence.line,
                    sentence.text
                ));
            }
        }
    }
    assert!(read > 5_000, "only {read} sentences found");
    assert!(refused.is_empty(), "{} sentences to rewrite:\n{}", refused.len(), refused.join("\n"));
}

/// The sentences of a source that are refused, and their lines.
fn refused(source: &str) -> Vec<(usize, String)> {
    let refused = sentences(source).into_iter().filter(|sentence| sentence.remedy().is_some());
    refused.map(|sentence| (sentence.line, sentence.text)).collect()
}

#[test]
fn comments_are_split_into_sentences() {
    let source = "\
        /// One, e.g. this. Two (in\n/// brackets.) `Code. Of it` is three\n///\n/// - four\n\
        /// - five\n/// ```\n/// What code;\n/// ```\n//! Six\nlet url = \"a // b\"; // Seven. Eight\n";
    let found: Vec<_> = sentences(source).into_iter().map(|found| (found.line, found.text)).collect();
    let expected = [
        (1, "One, e.g. this."),
        (1, "Two (in brackets.)"),
        (2, "`Code. Of it` is three"),
        (4, "four"),
        (5, "five"),
        (9, "Six"),
        (10, "Seven."),
        (10, "Eight"),
    ];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn patterns_are_found_where_they_are_headless() {
    for text in [
        "What a call needs.",
        "Of the job.",
        "When it began.",
        "As [`open`], with a key.",
        "As before.",
        "The one, on\n/// its way.",
        "Asked by Nobody.",
    ] {
        assert_eq!(refused(&format!("/// Fine.\n/// {text}\n")).len(), 1, "{text}");
    }
    let sentence = "What they need.".to_owned();
    assert_eq!(refused("/// Fine, as it is. What they\n/// need. Fine.\n"), [(1, sentence)]);
    for text in
        ["When it begins, it ends.", "As soon as it ends, it begins.", "`nobody` and `What`", "Ofcom."]
    {
        assert_eq!(refused(&format!("/// {text}\n")), [], "{text}");
    }
    assert_eq!(refused("/// # Errors\n/// When it fails.\n"), []);
}
