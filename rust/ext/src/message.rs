// SPDX-License-Identifier: Apache-2.0
//! A message that Python holds: for signing and verifying with every part chosen, and for responses.

use std::sync::Arc;

use ojak_httpsig::error::{Outcome, Reason, Refused};
use ojak_httpsig::message::Message as Core;
use ojak_httpsig::target;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::convert::{Headers, argument};
use crate::errors::signature_refused;

/// The parts of a message.
pub struct Parts {
    method: Option<String>,
    url: Option<String>,
    target: Option<String>,
    status: Option<u16>,
    headers: Headers,
    trailers: Headers,
    body: Option<Vec<u8>>,
    request: Option<Arc<Parts>>,
}

impl Parts {
    /// Runs something with the message, and with fields added to it.
    pub fn with<T>(&self, more: &[(&str, &str)], run: impl FnOnce(&Core<'_>) -> Outcome<T>) -> Outcome<T> {
        let request = self.request.as_ref();
        let (request_fields, request_trailers) =
            request.map(|parts| (parts.headers.pairs(), parts.trailers.pairs())).unwrap_or_default();
        let request = request.map(|parts| parts.core(&request_fields, &request_trailers, None)).transpose()?;
        let mut fields = self.headers.pairs();
        fields.extend_from_slice(more);
        let trailers = self.trailers.pairs();
        run(&self.core(&fields, &trailers, request)?)
    }

    fn core<'a>(
        &'a self,
        fields: &'a [(&'a str, &'a str)],
        trailers: &'a [(&'a str, &'a str)],
        request: Option<Core<'a>>,
    ) -> Outcome<Core<'a>> {
        let body = self.body.as_deref();
        let message = match (self.status, &self.method, &self.url) {
            (Some(status), None, None) => Core::response(status, fields, body, request.map(Box::new))?,
            (None, Some(method), Some(url)) if request.is_none() => {
                let message = Core::request(method, url, fields, body)?;
                match &self.target {
                    Some(target) => message.with_raw_target(target)?,
                    None => message,
                }
            }
            _ => {
                return Err(Refused::new(
                    Reason::InvalidParam,
                    "a message is a request with method and url, or a response with status and maybe a request",
                ));
            }
        };
        message.with_trailers(trailers)
    }
}

/// A message with every part chosen: a request (method and url) or a response (status, and maybe its request).
///
/// Make a message, checked.
///
/// `target` is the request target as it stands in the request line, where that is not path and query of `url`.
/// Header fields are in message order, duplicates kept. At most 256 fields and 64 KiB of them are taken. Raises
/// `SignatureRefused` with the reason `invalid_url`, `invalid_header` or `invalid_param`.
#[pyclass(frozen, module = "ojak._ojak", skip_from_py_object)]
pub struct Message(pub Arc<Parts>);

#[pymethods]
impl Message {
    #[new]
    #[pyo3(signature = (
        headers, *, method = None, url = None, target = None, status = None, body = None, trailers = None,
        request = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        headers: &Bound<'_, PyAny>,
        method: Option<&Bound<'_, PyString>>,
        url: Option<&Bound<'_, PyString>>,
        target: Option<&Bound<'_, PyString>>,
        status: Option<u16>,
        body: Option<Vec<u8>>,
        trailers: Option<&Bound<'_, PyAny>>,
        request: Option<&Self>,
    ) -> PyResult<Self> {
        let own = |text: Option<&Bound<'_, PyString>>, reason, what| {
            text.map(|text| argument(text, reason, what).map(std::borrow::Cow::into_owned)).transpose()
        };
        let parts = Parts {
            method: own(method, Reason::InvalidHeader, "method")?,
            url: own(url, Reason::InvalidUrl, "URL")?,
            target: own(target, Reason::InvalidUrl, "request target")?,
            status,
            headers: Headers::read(headers)?,
            trailers: trailers.map(Headers::read).transpose()?.unwrap_or_default(),
            body,
            request: request.map(|request| Arc::clone(&request.0)),
        };
        parts.with(&[], |_| Ok(())).map_err(|refused| signature_refused(headers.py(), &refused))?;
        Ok(Self(Arc::new(parts)))
    }

    fn __repr__(&self) -> String {
        match (&self.0.method, &self.0.url, self.0.status) {
            (Some(method), Some(url), _) => format!("Message(method={method:?}, url={url:?})"),
            (_, _, status) => format!("Message(status={})", status.unwrap_or_default()),
        }
    }
}

// The fields are Python's attributes, and RFC 9421 names them.
/// A URL cut into what stands on the wire and in a signature (RFC 9421 section 2.2).
#[allow(clippy::struct_field_names)]
#[pyclass(frozen, get_all, module = "ojak._ojak", skip_from_py_object)]
pub struct Target {
    /// The scheme, in lower case.
    scheme: &'static str,
    /// Host in lower-case A-labels, with the port unless it is the default one: the Host field too.
    authority: String,
    /// The path, byte for byte; `/` if there is none.
    path: String,
    /// The value of `@query`: the query with its question mark, a lone one if there is none.
    query: String,
    /// Path and query, as in the request line.
    request_target: String,
    /// The URI without its fragment.
    target_uri: String,
}

/// Cut an absolute http or https URL of at most 8 KiB. Raises `SignatureRefused` (`invalid_url`).
#[pyfunction]
pub fn parse_target(url: &Bound<'_, PyString>) -> PyResult<Target> {
    let text = argument(url, Reason::InvalidUrl, "URL")?;
    let target = target::Target::parse(&text).map_err(|refused| signature_refused(url.py(), &refused))?;
    Ok(Target {
        scheme: target.scheme,
        path: target.path.to_owned(),
        query: target.query_component(),
        request_target: target.request_target(),
        target_uri: target.target_uri(),
        authority: target.authority.into_owned(),
    })
}
