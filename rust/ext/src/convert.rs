// SPDX-License-Identifier: Apache-2.0
//! Python's values as Rust's.

use std::borrow::Cow;

use ojak_httpsig::error::{Reason, Refused};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PySequence, PyString};

use crate::errors::signature_refused;

/// Header fields as they came: pairs of str, or of bytes.
#[derive(Default)]
pub struct Headers(Vec<(PyBackedStr, PyBackedStr)>);

impl Headers {
    /// The pairs.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect()
    }

    /// Reads a sequence of pairs.
    pub fn read(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = fields.py();
        let sequence = fields.cast::<PySequence>()?;
        let count = sequence.len()?;
        if count > ojak_httpsig::message::MAX_FIELDS {
            let refused = Refused::new(
                Reason::InvalidHeader,
                format!(
                    "the message has {count} header fields; at most {} are allowed",
                    ojak_httpsig::message::MAX_FIELDS
                ),
            );
            return Err(signature_refused(py, &refused));
        }
        let mut pairs = Vec::with_capacity(count);
        for pair in sequence.try_iter()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            pairs.push((text(&name, "header name")?, text(&value, "header value")?));
        }
        Ok(Self(pairs))
    }
}

/// A str, or bytes of ASCII.
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
        let string = std::str::from_utf8(bytes.as_bytes()).map_err(|_| refused())?;
        return PyString::new(py, string).extract::<PyBackedStr>().map_err(|_| refused());
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
