//! Reads the notation of the `*.api` files. Types look as in TypeScript:
//!
//! ```text
//! type Event = {
//!     id: string, subject: string|null
//!     created_at: time // A comment behind a field describes it.
//! }
//!
//! GET /admin/events "The event log, newest first."
//!     query limit?: int
//!     200 { events: Event[], cursor?: string }
//! ```
//!
//! The basic types are `string`, `int`, `number`, `bool`, `null`, `any`, `time`, `did`, `nsid`, `uri` and `map<T>`;
//! `...Name` in an object stands for the fields of that type. An answer has a status, and a type or a media type;
//! `errors page` says that errors are pages, unless the client asks for JSON.

/// A file, or several.
#[derive(Debug, Default)]
pub(super) struct Api {
    pub types: Vec<(String, Type)>,
    pub operations: Vec<Operation>,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub method: String,
    pub path: String,
    pub summary: String,
    pub query: Vec<Field>,
    pub body: Option<Content>,
    pub answers: Vec<(u16, Option<Content>)>,
    pub has_error_pages: bool,
}

#[derive(Debug)]
pub(super) enum Content {
    Json(Type),
    /// A media type.
    Other(String),
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: String,
    pub is_optional: bool,
    pub kind: Type,
    pub description: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Type {
    /// A basic type, or a declared one.
    Named(String),
    /// The one text that is allowed.
    Text(String),
    List(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Object(Vec<Member>),
}

#[derive(Clone, Debug)]
pub(super) enum Member {
    Field(Field),
    /// All fields of a declared type.
    FieldsOf(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Path(String),
    Sign(char),
    Comment(String),
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

impl Api {
    /// Adds what a file declares. Panics where it breaks the rules: only tests read it.
    pub fn read(&mut self, name: &str, text: &str) {
        let mut parser = Parser { name, tokens: tokens(text), at: 0 };
        while let Some(word) = parser.word() {
            if word == "type" {
                let name = parser.expect_word();
                parser.expect('=');
                let kind = parser.kind();
                self.types.push((name, kind));
            } else {
                assert!(METHODS.contains(&word.as_str()), "{name}: {word} is no method");
                let operation = parser.operation(word);
                self.operations.push(operation);
            }
        }
        parser.skip_comments();
        assert_eq!(parser.at, parser.tokens.len(), "{name}: {:?}", parser.tokens.get(parser.at));
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(tokens_of_line).collect()
}

fn tokens_of_line(line: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let token;
        (token, rest) = if let Some(comment) = rest.strip_prefix("//") {
            (Token::Comment(comment.trim().to_owned()), "")
        } else if let Some(text) = rest.strip_prefix('"') {
            let (text, rest) = text.split_once('"').expect("a closing quote");
            (Token::Text(text.to_owned()), rest)
        } else if first == '/' {
            let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            (Token::Path(path.to_owned()), rest)
        } else {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            match rest.find(|c| !is_part(c)).unwrap_or(rest.len()) {
                0 => (Token::Sign(first), &rest[first.len_utf8()..]),
                end => (Token::Word(rest[..end].to_owned()), &rest[end..]),
            }
        };
        // Commas may be left out at the end of a line, so they say nothing.
        if token != Token::Sign(',') {
            found.push(token);
        }
        rest = rest.trim_start();
    }
    found
}

/// Whether a word begins something else than a type.
fn begins_other(word: &str) -> bool {
    METHODS.contains(&word)
        || ["type", "query", "body", "errors"].contains(&word)
        || word.parse::<u16>().is_ok()
}

struct Parser<'a> {
    name: &'a str,
    tokens: Vec<Token>,
    at: usize,
}

impl Parser<'_> {
    fn operation(&mut self, method: String) -> Operation {
        let Some(Token::Path(path)) = self.next() else { panic!("{}: {method} without a path", self.name) };
        let summary = self.text().unwrap_or_else(|| panic!("{path} has no summary"));
        let (mut query, mut body, mut answers, mut has_error_pages) = (Vec::new(), None, Vec::new(), false);
        loop {
            self.skip_comments();
            let Some(Token::Word(word)) = self.peek().cloned() else { break };
            if let Ok(status) = word.parse::<u16>() {
                self.at += 1;
                answers.push((status, self.content()));
            } else if word == "query" {
                self.at += 1;
                query.push(self.field());
            } else if word == "body" {
                self.at += 1;
                body = self.content();
            } else if word == "errors" {
                self.at += 1;
                let kind = self.next();
                assert_eq!(kind, Some(Token::Word("page".to_owned())), "{method} {path}");
                has_error_pages = true;
            } else {
                break;
            }
        }
        assert!(!answers.is_empty(), "{method} {path} has no answer");
        Operation { method, path, summary, query, body, answers, has_error_pages }
    }

    fn content(&mut self) -> Option<Content> {
        match self.peek() {
            Some(Token::Text(text)) if text.contains('/') => self.text().map(Content::Other),
            Some(Token::Word(word)) if begins_other(word) => None,
            Some(Token::Word(_) | Token::Text(_) | Token::Sign('{' | '(')) => {
                Some(Content::Json(self.kind()))
            }
            _ => None,
        }
    }

    fn kind(&mut self) -> Type {
        let mut kinds = vec![self.list()];
        while self.sign('|') {
            kinds.push(self.list());
        }
        if kinds.len() == 1 { kinds.remove(0) } else { Type::Union(kinds) }
    }

    fn list(&mut self) -> Type {
        let mut kind = self.single();
        while self.sign('[') {
            self.expect(']');
            kind = Type::List(Box::new(kind));
        }
        kind
    }

    fn single(&mut self) -> Type {
        if let Some(text) = self.text() {
            return Type::Text(text);
        }
        if self.sign('(') {
            let kind = self.kind();
            self.expect(')');
            return kind;
        }
        if self.sign('{') {
            return self.object();
        }
        let name = self.expect_word();
        if name != "map" {
            return Type::Named(name);
        }
        self.expect('<');
        let kind = self.kind();
        self.expect('>');
        Type::Map(Box::new(kind))
    }

    fn object(&mut self) -> Type {
        let mut members = Vec::new();
        while !self.sign('}') {
            members.push(if self.sign('.') {
                self.expect('.');
                self.expect('.');
                Member::FieldsOf(self.expect_word())
            } else {
                Member::Field(self.field())
            });
        }
        Type::Object(members)
    }

    fn field(&mut self) -> Field {
        let name = self.expect_word();
        let is_optional = self.sign('?');
        self.expect(':');
        let kind = self.kind();
        let description = match self.tokens.get(self.at) {
            Some(Token::Comment(text)) => Some(text.clone()),
            _ => None,
        };
        Field { name, is_optional, kind, description }
    }

    fn skip_comments(&mut self) {
        while matches!(self.tokens.get(self.at), Some(Token::Comment(_))) {
            self.at += 1;
        }
    }

    /// The next token that is not a comment, which stays the next one.
    fn peek(&self) -> Option<&Token> {
        self.tokens[self.at..].iter().find(|token| !matches!(token, Token::Comment(_)))
    }

    fn next(&mut self) -> Option<Token> {
        self.skip_comments();
        self.at += 1;
        self.tokens.get(self.at - 1).cloned()
    }

    fn word(&mut self) -> Option<String> {
        let Some(Token::Word(word)) = self.peek().cloned() else { return None };
        self.skip_comments();
        self.at += 1;
        Some(word)
    }

    fn text(&mut self) -> Option<String> {
        let Some(Token::Text(text)) = self.peek().cloned() else { return None };
        self.skip_comments();
        self.at += 1;
        Some(text)
    }

    fn sign(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        if found {
            self.skip_comments();
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, sign: char) {
        let near = self.tokens[self.at.saturating_sub(3)..].iter().take(6).collect::<Vec<_>>();
        let near = format!("{near:?}");
        assert!(self.sign(sign), "{}: {sign} is missing near {near}", self.name);
    }

    fn expect_word(&mut self) -> String {
        self.word()
            .unwrap_or_else(|| panic!("{}: a word is missing near {:?}", self.name, self.tokens.get(self.at)))
    }
}
