// SPDX-License-Identifier: Apache-2.0
//! An HTTP message as a signature sees it, and the limits on what a stranger may put into one.

use std::borrow::Cow;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::target::{MAX_URL_BYTES, Target};

/// The most header fields that a message may have.
pub const MAX_FIELDS: usize = 256;
/// The most bytes that all names and values of a message's header fields may have together.
pub const MAX_FIELDS_BYTES: usize = 64 * 1024;

/// One header field, name and value as they came or will go.
pub type Field<'a> = (&'a str, &'a str);

/// What a message is: a request with its target, or a response with its status.
#[derive(Clone, Debug)]
pub enum Start<'a> {
    /// A request.
    Request {
        /// The method, in upper case as it is sent.
        method: &'a str,
        /// The target.
        target: Target<'a>,
        /// The target as it stands in the request line, where that is not path and query (absolute-form, say).
        raw: Option<&'a str>,
    },
    /// A response, with the request that it answers if that is known.
    Response {
        /// The status code.
        status: u16,
        /// The request, for components with `;req`.
        request: Option<Box<Message<'a>>>,
    },
}

/// An HTTP message: start, header fields in order, trailers, body.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Request or response.
    pub start: Start<'a>,
    /// Header fields in message order, duplicates kept.
    pub fields: Cow<'a, [Field<'a>]>,
    /// Trailer fields.
    pub trailers: Cow<'a, [Field<'a>]>,
    /// The body; `None` if there is none.
    pub body: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// A request, checked: the method is a token, the URL can be a target, the fields can stand in a message.
    ///
    /// # Errors
    /// `invalid_header` for method and fields, `invalid_url` for the URL.
    pub fn request(method: &'a str, url: &'a str, fields: &'a [Field<'a>], body: Option<&'a [u8]>) -> Outcome<Self> {
        check_method(method)?;
        let target = Target::parse(url)?;
        check_fields(fields)?;
        let start = Start::Request { method, target, raw: None };
        Ok(Self { start, fields: Cow::Borrowed(fields), trailers: Cow::Borrowed(&[]), body })
    }

    /// The same request with the target as it stands in the request line.
    ///
    /// # Errors
    /// `invalid_url` for one with spaces, control or non-ASCII characters.
    pub fn with_raw_target(mut self, text: &'a str) -> Outcome<Self> {
        if text.is_empty() || text.len() > MAX_URL_BYTES || !text.bytes().all(|b| (0x21..=0x7e).contains(&b)) {
            return Err(Refused::new(
                Reason::InvalidUrl,
                format!("the request target {} is not 1 to {MAX_URL_BYTES} printable ASCII characters", quoted(text)),
            ));
        }
        if let Start::Request { raw, .. } = &mut self.start {
            *raw = Some(text);
        }
        Ok(self)
    }

    /// Appends the request target, as it stands in the request line; nothing for a response.
    pub(crate) fn push_request_target(&self, out: &mut String, without_query: bool) {
        let Start::Request { target, raw, .. } = &self.start else { return };
        match raw {
            Some(raw) if without_query => out.push_str(raw.split_once('?').map_or(*raw, |(before, _)| before)),
            Some(raw) => out.push_str(raw),
            None if without_query => out.push_str(target.path),
            None => target.push_request_target(out),
        }
    }

    /// A response, checked like a request.
    ///
    /// # Errors
    /// `invalid_header` for the fields, `invalid_param` for an impossible status.
    pub fn response(
        status: u16,
        fields: &'a [Field<'a>],
        body: Option<&'a [u8]>,
        request: Option<Box<Self>>,
    ) -> Outcome<Self> {
        if !(100..=999).contains(&status) {
            return Err(Refused::new(Reason::InvalidParam, format!("the status {status} is not one of three digits")));
        }
        check_fields(fields)?;
        let start = Start::Response { status, request };
        Ok(Self { start, fields: Cow::Borrowed(fields), trailers: Cow::Borrowed(&[]), body })
    }

    /// The same message with trailers.
    ///
    /// # Errors
    /// `invalid_header`.
    pub fn with_trailers(mut self, trailers: &'a [Field<'a>]) -> Outcome<Self> {
        check_fields(trailers)?;
        self.trailers = Cow::Borrowed(trailers);
        Ok(self)
    }

    /// The method of a request.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match &self.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    /// Whether the message is a request whose body a signature has to cover: any but GET and HEAD.
    #[must_use]
    pub fn needs_digest(&self) -> bool {
        self.method().is_some_and(|method| !matches!(method, "GET" | "HEAD"))
    }

    /// The values of a field (name in lower case), in order, without surrounding white space.
    pub fn values<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        values(&self.fields, name)
    }

    /// The values of a field joined with comma and space; `None` if the message lacks the field.
    #[must_use]
    pub fn joined(&self, name: &str) -> Option<Cow<'_, str>> {
        joined(&self.fields, name)
    }
}

/// The values of a field, in order, without surrounding white space.
pub(crate) fn values<'m>(fields: &'m [Field<'_>], name: &'m str) -> impl Iterator<Item = &'m str> {
    fields.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| trim_ows(value))
}

/// The values of a field joined with comma and space.
pub(crate) fn joined<'m>(fields: &'m [Field<'_>], name: &str) -> Option<Cow<'m, str>> {
    let mut found =
        fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| trim_ows(value));
    let first = found.next()?;
    let Some(second) = found.next() else { return Some(Cow::Borrowed(first)) };
    let mut out = String::with_capacity(first.len() + second.len() + 2);
    out.push_str(first);
    for value in std::iter::once(second).chain(found) {
        out.push_str(", ");
        out.push_str(value);
    }
    Some(Cow::Owned(out))
}

/// A value without optional white space around it.
pub(crate) fn trim_ows(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Whether a text is a token of RFC 9110 section 5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn check_method(method: &str) -> Outcome<()> {
    if method.len() <= 64 && is_token(method) {
        return Ok(());
    }
    Err(Refused::new(Reason::InvalidHeader, format!("the method {} is not a token such as POST", quoted(method))))
}

/// Checks that fields can stand in a message, and that there are not too many of them.
///
/// # Errors
/// `invalid_header`.
pub(crate) fn check_fields(fields: &[Field<'_>]) -> Outcome<()> {
    if fields.len() > MAX_FIELDS {
        return Err(Refused::new(
            Reason::InvalidHeader,
            format!("the message has {} header fields; at most {MAX_FIELDS} are allowed", fields.len()),
        ));
    }
    let mut bytes = 0;
    for (name, value) in fields {
        if !is_token(name) {
            return Err(Refused::new(
                Reason::InvalidHeader,
                format!("the header name {} is not a token", quoted(name)),
            ));
        }
        if value.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7f) {
            return Err(Refused::new(
                Reason::InvalidHeader,
                format!("the header {} has a control character in its value", quoted(name)),
            ));
        }
        bytes += name.len() + value.len();
    }
    if bytes > MAX_FIELDS_BYTES {
        return Err(Refused::new(
            Reason::InvalidHeader,
            format!("the header fields have {bytes} bytes together; at most {MAX_FIELDS_BYTES} are allowed"),
        ));
    }
    Ok(())
}
