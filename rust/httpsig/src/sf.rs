// SPDX-License-Identifier: Apache-2.0
//! Structured fields (RFC 8941, RFC 9651): parsed by `sfv` into values that keep order and repeated keys.
//!
//! The RFC lets the last of two equal keys win in silence. A verifier wants to see both, so the parser's visitor is
//! used instead of its own tree.

use std::collections::HashSet;
use std::convert::Infallible;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, DictSerializer, ItemSerializer, KeyRef, ListSerializer, Parser, RefBareItem, Version};

use crate::error::{Outcome, Reason, Refused};

/// A bare item as parsed; strings and tokens borrow from the input where they can.
pub type Bare<'a> = BareItemFromInput<'a>;

/// Parameters in the order in which they stand, repeated ones kept.
pub type Params<'a> = Vec<(&'a str, Bare<'a>)>;

/// An item with its parameters.
#[derive(Debug)]
pub struct Item<'a> {
    /// The value.
    pub bare: Bare<'a>,
    /// Its parameters.
    pub params: Params<'a>,
}

/// An inner list with its parameters.
#[derive(Debug, Default)]
pub struct InnerList<'a> {
    /// The items.
    pub items: Vec<Item<'a>>,
    /// The parameters of the list.
    pub params: Params<'a>,
}

/// The value of a member.
#[derive(Debug)]
pub enum Value<'a> {
    /// An item.
    Item(Item<'a>),
    /// An inner list.
    List(InnerList<'a>),
}

/// A member of a dictionary.
#[derive(Debug)]
pub struct Member<'a> {
    /// The key.
    pub key: &'a str,
    /// The value.
    pub value: Value<'a>,
}

/// A dictionary's members in the order in which they stand, repeated keys kept.
///
/// # Errors
/// `malformed_sf`.
pub fn dictionary(text: &str, version: Version) -> Outcome<Vec<Member<'_>>> {
    let mut members = Vec::new();
    Parser::new(text).with_version(version).parse_dictionary_with_visitor(&mut Members(&mut members)).map_err(
        |error| Refused::new(Reason::MalformedSf, format!("the field is not a structured dictionary: {error}")),
    )?;
    Ok(members)
}

/// The first name that is given twice.
pub(crate) fn repeated<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}

/// The first parameter that is given twice.
pub(crate) fn repeated_param<'a>(params: &Params<'a>) -> Option<&'a str> {
    repeated(params.iter().map(|(name, _)| *name))
}

/// Appends an inner list with its parameters in canonical form (RFC 8941 section 4.1.1.1).
///
/// # Errors
/// `malformed_sf` if a key cannot stand in a structured field.
pub fn push_inner_list(out: &mut String, list: &InnerList<'_>) -> Outcome<()> {
    out.push('(');
    for (index, item) in list.items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        push_item(out, item)?;
    }
    out.push(')');
    push_params(out, &list.params)
}

/// Appends an item with its parameters in canonical form.
///
/// # Errors
/// `malformed_sf` if a key cannot stand in a structured field.
pub fn push_item(out: &mut String, item: &Item<'_>) -> Outcome<()> {
    push_bare(out, &item.bare);
    push_params(out, &item.params)
}

fn push_bare(out: &mut String, bare: &Bare<'_>) {
    let _ = ItemSerializer::with_buffer(out).bare_item(RefBareItem::from(bare)).finish();
}

fn push_params(out: &mut String, params: &Params<'_>) -> Outcome<()> {
    for (key, value) in params {
        check_key(key)?;
        out.push(';');
        out.push_str(key);
        if !matches!(value, Bare::Boolean(true)) {
            out.push('=');
            push_bare(out, value);
        }
    }
    Ok(())
}

/// Checks that a text can be a key.
///
/// # Errors
/// `malformed_sf`.
pub fn check_key(key: &str) -> Outcome<()> {
    KeyRef::from_str(key).map(|_| ()).map_err(|_| {
        Refused::new(
            Reason::MalformedSf,
            "a key begins with a lower-case letter or *, and goes on with those, digits, _, -, .",
        )
    })
}

/// Appends a string, quoted and escaped (RFC 8941 section 4.1.6).
///
/// # Errors
/// `invalid_param` for a text with control or non-ASCII characters.
pub fn push_string(out: &mut String, text: &str) -> Outcome<()> {
    if text.bytes().any(|b| !(0x20..=0x7e).contains(&b)) {
        return Err(Refused::new(Reason::InvalidParam, "a string in a signature holds printable ASCII only"));
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    Ok(())
}

/// A whole field in canonical form: as the type registered for it, else the first type it can be parsed as.
///
/// # Errors
/// `malformed_sf`.
pub fn canonical(name: &str, text: &str) -> Outcome<String> {
    let orders: &[Kind] = match name {
        "signature"
        | "signature-input"
        | "accept-signature"
        | "content-digest"
        | "repr-digest"
        | "want-content-digest"
        | "want-repr-digest"
        | "priority"
        | "cache-status"
        | "cdn-cache-control" => &[Kind::Dictionary],
        "client-cert-chain" | "proxy-status" => &[Kind::List],
        "client-cert" | "origin-agent-cluster" => &[Kind::Item],
        _ => &[Kind::Dictionary, Kind::List, Kind::Item],
    };
    orders
        .iter()
        .find_map(|kind| kind.canonical(text))
        .ok_or_else(|| Refused::new(Reason::MalformedSf, format!("the field {name} is not a structured field")))
}

#[derive(Clone, Copy)]
enum Kind {
    Dictionary,
    List,
    Item,
}

impl Kind {
    fn canonical(self, text: &str) -> Option<String> {
        let parser = Parser::new(text).with_version(Version::Rfc9651);
        match self {
            Self::Dictionary => {
                let parsed = parser.parse::<sfv::Dictionary>().ok()?;
                let mut serializer = DictSerializer::new();
                serializer.members(&parsed);
                Some(serializer.finish().unwrap_or_default())
            }
            Self::List => {
                let parsed = parser.parse::<sfv::List>().ok()?;
                let mut serializer = ListSerializer::new();
                serializer.members(&parsed);
                Some(serializer.finish().unwrap_or_default())
            }
            Self::Item => {
                let parsed = parser.parse::<sfv::Item>().ok()?;
                Some(ItemSerializer::new().bare_item(&parsed.bare_item).parameters(&parsed.params).finish())
            }
        }
    }
}

struct Members<'out, 'a>(&'out mut Vec<Member<'a>>);

impl<'a> DictionaryVisitor<'a> for Members<'_, 'a> {
    type Error = Infallible;

    fn entry(&mut self, key: &'a KeyRef) -> Result<impl EntryVisitor<'a>, Self::Error> {
        Ok(Entry { key: key.as_str(), out: self.0 })
    }
}

struct Entry<'out, 'a> {
    key: &'a str,
    out: &'out mut Vec<Member<'a>>,
}

impl<'a> ItemVisitor<'a> for Entry<'_, 'a> {
    type Error = Infallible;

    fn bare_item(self, bare: Bare<'a>) -> Result<impl ParameterVisitor<'a>, Self::Error> {
        self.out.push(Member { key: self.key, value: Value::Item(Item { bare, params: Vec::new() }) });
        Ok(match self.out.last_mut().map(|member| &mut member.value) {
            Some(Value::Item(item)) => Some(Collect(&mut item.params)),
            _ => None,
        })
    }
}

impl<'a> EntryVisitor<'a> for Entry<'_, 'a> {
    fn inner_list(self) -> Result<impl InnerListVisitor<'a>, Self::Error> {
        self.out.push(Member { key: self.key, value: Value::List(InnerList::default()) });
        Ok(match self.out.last_mut().map(|member| &mut member.value) {
            Some(Value::List(list)) => Some(Items(list)),
            _ => None,
        })
    }
}

struct Items<'out, 'a>(&'out mut InnerList<'a>);

impl<'a> InnerListVisitor<'a> for Items<'_, 'a> {
    type Error = Infallible;

    fn item(&mut self) -> Result<impl ItemVisitor<'a>, Self::Error> {
        Ok(OneItem(&mut self.0.items))
    }

    fn finish(self) -> Result<impl ParameterVisitor<'a>, Self::Error> {
        Ok(Collect(&mut self.0.params))
    }
}

struct OneItem<'out, 'a>(&'out mut Vec<Item<'a>>);

impl<'a> ItemVisitor<'a> for OneItem<'_, 'a> {
    type Error = Infallible;

    fn bare_item(self, bare: Bare<'a>) -> Result<impl ParameterVisitor<'a>, Self::Error> {
        self.0.push(Item { bare, params: Vec::new() });
        Ok(self.0.last_mut().map(|item| Collect(&mut item.params)))
    }
}

struct Collect<'out, 'a>(&'out mut Params<'a>);

impl<'a> ParameterVisitor<'a> for Collect<'_, 'a> {
    type Error = Infallible;

    fn parameter(&mut self, key: &'a KeyRef, value: Bare<'a>) -> Result<(), Self::Error> {
        self.0.push((key.as_str(), value));
        Ok(())
    }
}
