// SPDX-License-Identifier: Apache-2.0
//! The signature base (RFC 9421 section 2.5).

use sfv::Version;

use crate::error::{Outcome, Reason, Refused, quoted};
use crate::message::Message;
use crate::rfc9421::component::Component;
use crate::rfc9421::{MAX_COMPONENTS, MAX_FIELD_BYTES, MAX_STRUCTURED, value};
use crate::sf::{self, Value};

/// Builds the signature base over components. `params` is the inner list with its parameters, as it stands in
/// Signature-Input in canonical form.
///
/// # Errors
/// `duplicate_component`, and those of the values.
pub fn signature_base(message: &Message<'_>, components: &[Component<'_>], params: &str) -> Outcome<String> {
    if components.len() > MAX_COMPONENTS {
        return Err(Refused::new(
            Reason::InvalidComponent,
            format!(
                "a signature covers at most {MAX_COMPONENTS} components; this one would cover {}",
                components.len()
            ),
        ));
    }
    // Each of these parses its whole field again.
    if components.iter().filter(|component| component.is_structured()).count() > MAX_STRUCTURED {
        return Err(Refused::new(
            Reason::InvalidComponent,
            format!("a signature covers at most {MAX_STRUCTURED} components with sf or key"),
        ));
    }
    let mut out = String::with_capacity(512);
    for (index, component) in components.iter().enumerate() {
        if components.iter().take(index).any(|earlier| earlier.same_as(component)) {
            return Err(Refused::new(
                Reason::DuplicateComponent,
                format!("the component {} is covered twice", quoted(&component.name)),
            ));
        }
        component.push_identifier(&mut out)?;
        out.push_str(": ");
        value::push(&mut out, message, component)?;
        out.push('\n');
    }
    out.push_str("\"@signature-params\": ");
    out.push_str(params);
    Ok(out)
}

/// The labels of a Signature-Input or Accept-Signature field, each with its inner list in canonical form. Members
/// that are not inner lists are left out.
///
/// # Errors
/// `malformed_signature`, `duplicate_param`.
pub fn canonical_labels(text: &str) -> Outcome<Vec<(String, String)>> {
    let malformed = |what: String| Refused::new(Reason::MalformedSignature, what);
    if text.len() > MAX_FIELD_BYTES {
        return Err(malformed(format!("the field has {} bytes; at most {MAX_FIELD_BYTES} are read", text.len())));
    }
    let members = sf::dictionary(text, Version::Rfc8941).map_err(|refused| malformed(refused.detail.into_owned()))?;
    if let Some(label) = sf::repeated(members.iter().map(|member| member.key)) {
        return Err(malformed(format!("the field has the label {} twice", quoted(label))));
    }
    let mut labels: Vec<(String, String)> = Vec::with_capacity(members.len());
    for member in &members {
        let Value::List(list) = &member.value else { continue };
        if let Some(param) = sf::repeated_param(&list.params) {
            return Err(Refused::new(
                Reason::DuplicateParam,
                format!("the signature {} has the parameter {} twice", quoted(member.key), quoted(param)),
            ));
        }
        let mut canonical = String::new();
        sf::push_inner_list(&mut canonical, list)?;
        labels.push((member.key.to_owned(), canonical));
    }
    Ok(labels)
}
