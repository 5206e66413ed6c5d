// SPDX-License-Identifier: Apache-2.0
//! Python's values as Rust's.

use std::borrow::Cow;

use ojak_httpsig::error::{Reason, Refused};
use ojak_httpsig::message::MAX_FIELDS;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyString};

use crate::errors::signature_refused;

/// Header fields as they came: pairs of str, or of bytes.
#[derive(Default)]
pub struct Headers(Vec<(PyBackedStr, PyBackedStr)>);

impl Headers {
    /// The pairs.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect()
    }

    /// Reads pairs.
    pub fn read(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = fields.py();
        let mut pairs = Vec::with_capacity(16);
        for pair in fields.try_iter()? {
            if pairs.len() == MAX_FIELDS {
                let detail = format!("the message has more than {MAX_FIELDS} header fields");
                return Err(signature_refused(py, &Refused::new(Reason::InvalidHeader, detail)));
            }
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            pairs.push((text(&name, "header name")?, text(&value, "header value")?));
        }
        Ok(Self(pairs))
    }
}

/// A str, or bytes: UTF-8, or else taken as Latin-1, which keeps every byte apart from every other.
fn text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<PyBackedStr> {
    let py = value.py();
    let refused = || {
        let detail = format!("a {what} holds characters that cannot stand in a message");
        signature_refused(py, &Refused::new(Reason::InvalidHeader, detail))
    };
    if let Ok(string) = value.cast::<PyString>() {
        return string.extract::<PyBackedStr>().map_err(|_| refused());
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        let string = std::str::from_utf8(bytes)
            .map_or_else(|_| Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()), Cow::Borrowed);
        return PyString::new(py, &string).extract::<PyBackedStr>().map_err(|_| refused());
    }
    Err(PyTypeError::new_err(format!("a {what} is a str or bytes, not {}", value.get_type().name()?)))
}

/// A text such as a URL, a method or a key id; one with lone surrogates is refused, not a crash.
pub fn argument<'a>(value: &'a Bound<'_, PyString>, reason: Reason, what: &str) -> PyResult<Cow<'a, str>> {
    value.to_cow().map_err(|_| {
        signature_refused(
            value.py(),
            &Refused::new(reason, format!("the {what} holds characters that are not Unicode")),
        )
    })
}
