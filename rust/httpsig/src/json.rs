// SPDX-License-Identifier: Apache-2.0
//! JSON (RFC 8259) as signatures need it: strict, with repeated names refused and numbers as IEEE doubles (RFC 7493).

use std::iter::Peekable;
use std::str::CharIndices;

use crate::error::{Outcome, Reason, Refused, quoted};

/// The longest text that is parsed, in bytes.
pub const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;
/// How deep arrays and objects may stand in each other.
const MAX_DEPTH: usize = 128;

/// A JSON value. Members keep the order in which they stand.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true or false
    Bool(bool),
    /// A number; always finite.
    Number(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text.
    ///
    /// # Errors
    /// `not_json`, `duplicate_key`.
    pub fn parse(text: &[u8]) -> Outcome<Self> {
        if text.len() > MAX_JSON_BYTES {
            return Err(bad(format!("the JSON has {} bytes; at most {MAX_JSON_BYTES} are read", text.len())));
        }
        let text = std::str::from_utf8(text).map_err(|_| bad("the JSON is not UTF-8"))?;
        let mut parser = Parser { text, chars: text.char_indices().peekable() };
        parser.skip_space();
        let value = parser.value(0)?;
        parser.skip_space();
        match parser.chars.peek() {
            None => Ok(value),
            Some((at, _)) => Err(bad(format!("the JSON goes on after its value, at byte {at}"))),
        }
    }

    /// A member of an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

fn bad(what: impl Into<std::borrow::Cow<'static, str>>) -> Refused {
    Refused::new(Reason::NotJson, what)
}

struct Parser<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Outcome<Json> {
        if depth > MAX_DEPTH {
            return Err(bad(format!("the JSON is nested more than {MAX_DEPTH} deep")));
        }
        match self.chars.peek().copied() {
            Some((_, '{')) => self.object(depth),
            Some((_, '[')) => self.array(depth),
            Some((_, '"')) => self.string().map(Json::String),
            Some((start, '-' | '0'..='9')) => self.number(start),
            Some((start, 'a'..='z')) => self.word(start),
            other => Err(unexpected(other)),
        }
    }

    fn object(&mut self, depth: usize) -> Outcome<Json> {
        self.chars.next();
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        self.skip_space();
        if self.take('}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            let name = match self.chars.peek() {
                Some((_, '"')) => self.string()?,
                other => return Err(unexpected(other.copied())),
            };
            if !names.insert(name.clone()) {
                return Err(Refused::new(
                    Reason::DuplicateKey,
                    format!("the JSON has an object with the name {} twice", quoted(&name)),
                ));
            }
            self.skip_space();
            self.expect(':')?;
            self.skip_space();
            members.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take('}') {
                return Ok(Json::Object(members));
            }
            self.expect(',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Outcome<Json> {
        self.chars.next();
        let mut items = Vec::new();
        self.skip_space();
        if self.take(']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(']') {
                return Ok(Json::Array(items));
            }
            self.expect(',')?;
        }
    }

    fn string(&mut self) -> Outcome<String> {
        self.chars.next();
        let mut out = String::new();
        loop {
            match self.chars.next() {
                Some((_, '"')) => return Ok(out),
                Some((at, '\\')) => out.push(self.escape(at)?),
                Some((at, c)) if c < ' ' => {
                    return Err(bad(format!("the JSON has a raw control character in a string, at byte {at}")));
                }
                Some((_, c)) => out.push(c),
                None => return Err(bad("the JSON ends inside a string")),
            }
        }
    }

    fn escape(&mut self, at: usize) -> Outcome<char> {
        let wrong = || bad(format!("the JSON has an escape that is none, at byte {at}"));
        Ok(match self.chars.next().map(|(_, c)| c) {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let first = self.hex4().ok_or_else(wrong)?;
                let code = match first {
                    0xd800..=0xdbff => {
                        let second = if self.take('\\') && self.take('u') { self.hex4() } else { None };
                        match second {
                            Some(low @ 0xdc00..=0xdfff) => 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00),
                            _ => return Err(bad(format!("the JSON has half a surrogate pair, at byte {at}"))),
                        }
                    }
                    other => other,
                };
                char::from_u32(code).ok_or_else(|| bad(format!("the JSON has half a surrogate pair, at byte {at}")))?
            }
            _ => return Err(wrong()),
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |code, _| Some(code << 4 | self.chars.next()?.1.to_digit(16)?))
    }

    fn number(&mut self, start: usize) -> Outcome<Json> {
        let wrong = || bad(format!("the JSON has a number that is none, at byte {start}"));
        self.take('-');
        if !self.take('0') && self.digits() == 0 {
            return Err(wrong());
        }
        if self.take('.') && self.digits() == 0 {
            return Err(wrong());
        }
        if self.take('e') || self.take('E') {
            if !self.take('+') {
                self.take('-');
            }
            if self.digits() == 0 {
                return Err(wrong());
            }
        }
        let end = self.position();
        let number: f64 = self.text.get(start..end).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        if number.is_finite() {
            return Ok(Json::Number(number));
        }
        Err(bad(format!("the JSON has a number beyond the range of a double, at byte {start}")))
    }

    fn digits(&mut self) -> usize {
        let mut count = 0;
        while self.chars.next_if(|(_, c)| c.is_ascii_digit()).is_some() {
            count += 1;
        }
        count
    }

    fn word(&mut self, start: usize) -> Outcome<Json> {
        while self.chars.next_if(|(_, c)| c.is_ascii_lowercase()).is_some() {}
        let end = self.position();
        match self.text.get(start..end) {
            Some("true") => Ok(Json::Bool(true)),
            Some("false") => Ok(Json::Bool(false)),
            Some("null") => Ok(Json::Null),
            _ => Err(bad(format!("the JSON has a word that is none, at byte {start}"))),
        }
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_space(&mut self) {
        while self.chars.next_if(|(_, c)| matches!(c, ' ' | '\t' | '\n' | '\r')).is_some() {}
    }

    fn take(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn expect(&mut self, wanted: char) -> Outcome<()> {
        if self.take(wanted) { Ok(()) } else { Err(unexpected(self.chars.peek().copied())) }
    }
}

fn unexpected(found: Option<(usize, char)>) -> Refused {
    match found {
        Some((at, c)) => bad(format!("the JSON has {} where it cannot stand, at byte {at}", quoted(&c.to_string()))),
        None => bad("the JSON ends too early"),
    }
}
