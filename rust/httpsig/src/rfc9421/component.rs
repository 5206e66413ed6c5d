// SPDX-License-Identifier: Apache-2.0
//! Component identifiers (RFC 9421 sections 2.1 and 2.2): what may be named, with which parameters.

use std::borrow::Cow;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::is_token;
use crate::sf::{self, Bare, Item};

/// A parameter of a component identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// `;sf`: the field in the canonical form of structured fields.
    Sf,
    /// `;bs`: each field line as a byte sequence.
    Bs,
    /// `;tr`: a trailer.
    Tr,
    /// `;req`: of the request that a response answers.
    Req,
    /// `;key="…"`: one member of a dictionary.
    Key(Cow<'a, str>),
    /// `;name="…"`: one parameter of the query.
    Name(Cow<'a, str>),
}

impl<'a> Param<'a> {
    /// A parameter by name and value; `None` as value stands for true.
    ///
    /// # Errors
    /// `invalid_component` for one that is not known, or a value of the wrong type.
    pub fn named(name: &str, value: Option<Cow<'a, str>>) -> Outcome<Self> {
        match (name, value) {
            ("sf", None) => Ok(Self::Sf),
            ("bs", None) => Ok(Self::Bs),
            ("tr", None) => Ok(Self::Tr),
            ("req", None) => Ok(Self::Req),
            ("key", Some(key)) => Ok(Self::Key(key)),
            ("name", Some(name)) => Ok(Self::Name(name)),
            _ => Err(invalid(format!(
                "a component has the parameter {}, which is not known or of the wrong type",
                quoted(name)
            ))),
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Sf => "sf",
            Self::Bs => "bs",
            Self::Tr => "tr",
            Self::Req => "req",
            Self::Key(_) => "key",
            Self::Name(_) => "name",
        }
    }
}

/// A component identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component<'a> {
    /// A field name in lower case, or a derived component's name with its `@`.
    pub name: Cow<'a, str>,
    /// The parameters, in the order in which they are written.
    pub params: Vec<Param<'a>>,
}

const DERIVED: [&str; 9] = [
    "@method",
    "@target-uri",
    "@authority",
    "@scheme",
    "@request-target",
    "@path",
    "@query",
    "@query-param",
    "@status",
];

fn invalid(what: impl Into<Cow<'static, str>>) -> Refused {
    Refused::new(Reason::InvalidComponent, what)
}

impl<'a> Component<'a> {
    /// A component, checked: its name is known or a field's, and its parameters go with it.
    ///
    /// # Errors
    /// `invalid_component`.
    pub fn new(name: impl Into<Cow<'a, str>>, params: Vec<Param<'a>>) -> Outcome<Self> {
        let component = Self { name: name.into(), params };
        component.check()?;
        Ok(component)
    }

    /// A component from an item of an inner list.
    ///
    /// # Errors
    /// `malformed_signature` if the item is not a string, `invalid_component`.
    pub(crate) fn from_item(item: &'a Item<'_>) -> Outcome<Self> {
        let Bare::String(name) = &item.bare else {
            return Err(Refused::new(
                Reason::MalformedSignature,
                "a covered component is not written as a quoted string",
            ));
        };
        if sf::repeated_param(&item.params).is_some() {
            return Err(invalid(format!("the component {} has a parameter twice", quoted(name.as_str()))));
        }
        let params = item
            .params
            .iter()
            .map(|(param, value)| match value {
                Bare::Boolean(true) => Param::named(param, None),
                Bare::String(text) => Param::named(param, Some(Cow::Borrowed(text.as_str()))),
                _ => Err(invalid(format!(
                    "the component {} has the parameter {} with a value of the wrong type",
                    quoted(name.as_str()),
                    quoted(param)
                ))),
            })
            .collect::<Outcome<Vec<_>>>()?;
        Self::new(name.as_str(), params)
    }

    fn check(&self) -> Outcome<()> {
        let name = self.name.as_ref();
        let has = |wanted: &str| self.params.iter().any(|param| param.word() == wanted);
        if self
            .params
            .iter()
            .enumerate()
            .any(|(index, param)| self.params.iter().skip(index + 1).any(|other| other.word() == param.word()))
        {
            return Err(invalid(format!("the component {} has a parameter twice", quoted(name))));
        }
        if name.starts_with('@') {
            if !DERIVED.contains(&name) {
                return Err(invalid(format!("there is no derived component {}", quoted(name))));
            }
            if has("sf") || has("bs") || has("tr") || has("key") {
                return Err(invalid(format!("the derived component {name} takes none of sf, bs, tr and key")));
            }
            if has("name") != (name == "@query-param") {
                return Err(invalid("the parameter name is of @query-param, which needs it, and of nothing else"));
            }
            if name == "@status" && has("req") {
                return Err(invalid("@status is of responses, so it cannot have req"));
            }
            return Ok(());
        }
        if !is_token(name) || name.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(invalid(format!("the component {} is not a header name in lower case", quoted(name))));
        }
        if has("name") {
            return Err(invalid(format!("the parameter name does not go with the header {}", quoted(name))));
        }
        if has("bs") && (has("sf") || has("key")) {
            return Err(invalid(format!("bs goes with neither sf nor key, on the header {}", quoted(name))));
        }
        Ok(())
    }

    /// The same component, holding its own text.
    pub(crate) fn into_owned(self) -> Component<'static> {
        let params = self.params.into_iter().map(|param| match param {
            Param::Key(key) => Param::Key(Cow::Owned(key.into_owned())),
            Param::Name(name) => Param::Name(Cow::Owned(name.into_owned())),
            Param::Sf => Param::Sf,
            Param::Bs => Param::Bs,
            Param::Tr => Param::Tr,
            Param::Req => Param::Req,
        });
        Component { name: Cow::Owned(self.name.into_owned()), params: params.collect() }
    }

    /// Whether the component has the parameter `;req`.
    pub(crate) fn of_request(&self) -> bool {
        self.params.contains(&Param::Req)
    }

    /// Whether its value is read as a structured field.
    pub(crate) fn is_structured(&self) -> bool {
        self.params.iter().any(|param| matches!(param, Param::Sf | Param::Key(_)))
    }

    /// Whether this is that component without parameters.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.params.is_empty() && self.name == name
    }

    /// Whether both name the same: parameters are compared without their order.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.name == other.name
            && self.params.len() == other.params.len()
            && self.params.iter().all(|param| other.params.contains(param))
    }

    /// Appends the identifier as it stands in the base and in Signature-Input.
    pub(crate) fn push_identifier(&self, out: &mut String) -> Outcome<()> {
        sf::push_string(out, &self.name)?;
        for param in &self.params {
            out.push(';');
            out.push_str(param.word());
            if let Param::Key(value) | Param::Name(value) = param {
                out.push('=');
                sf::push_string(out, value)?;
            }
        }
        Ok(())
    }
}
