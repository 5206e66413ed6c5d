// SPDX-License-Identifier: Apache-2.0
//! Cases about messages: signing, verifying, bases, and fields taken apart.

use std::borrow::Cow;

use base64::Engine as _;
use ojak_httpsig::cavage::{self, CavageRequest};
use ojak_httpsig::error::Outcome;
use ojak_httpsig::key::{Algorithm, PublicKey};
use ojak_httpsig::message::{Field, Message};
use ojak_httpsig::policy::Scheme;
use ojak_httpsig::profile::added_fields;
use ojak_httpsig::rfc9421::{self, Component, Param, ParamValue, Rfc9421Request, inner_list};
use serde_json::Value;

use super::{Case, Keys, Run, Seen, base64 as bytes, same};

type Owned = Vec<(String, String)>;

fn pairs(fields: &Value) -> Owned {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    fields
        .as_array()
        .map(|all| all.iter().map(|field| (text(&field[0]), text(&field[1]))).collect())
        .unwrap_or_default()
}

fn borrowed(fields: &Owned) -> Vec<Field<'_>> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Runs something with the message of some inputs, and with fields added to it.
fn with<T>(inputs: &Value, more: &Owned, run: impl FnOnce(&Message<'_>) -> Outcome<T>) -> Outcome<T> {
    let (headers, trailers) = ([pairs(&inputs["headers"]), more.clone()].concat(), pairs(&inputs["trailers"]));
    let (fields, trailers) = (borrowed(&headers), borrowed(&trailers));
    let body = bytes(&inputs["body_b64"]);
    if let Some(status) = inputs["status"].as_u64() {
        let answered = &inputs["request"];
        let (request_headers, request_body) = (pairs(&answered["headers"]), bytes(&answered["body_b64"]));
        let request_fields = borrowed(&request_headers);
        let request = answered["method"]
            .as_str()
            .map(|method| {
                let url = answered["url"].as_str().expect("a URL");
                Message::request(method, url, &request_fields, request_body.as_deref()).map(Box::new)
            })
            .transpose()?;
        let status = u16::try_from(status).expect("a status");
        return run(&Message::response(status, &fields, body.as_deref(), request)?.with_trailers(&trailers)?);
    }
    let (method, url) = (inputs["method"].as_str().expect("a method"), inputs["url"].as_str().expect("a URL"));
    let message = Message::request(method, url, &fields, body.as_deref())?.with_trailers(&trailers)?;
    match inputs["target"].as_str() {
        Some(target) => run(&message.with_raw_target(target)?),
        None => run(&message),
    }
}

fn added(case: &Case<'_>) -> Outcome<Owned> {
    let names: Vec<&str> = case
        .input("auto")
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).filter(|name| *name != "created").collect())
        .unwrap_or_default();
    let now_s = case.input("now").as_i64().unwrap_or_default();
    with(&case.json["inputs"], &Vec::new(), |message| added_fields(message, &names, now_s))
        .map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

struct CavageInputs<'a> {
    algorithm: &'a str,
    headers: Vec<&'a str>,
    created_s: Option<i64>,
    expires_s: Option<i64>,
}

impl<'a> CavageInputs<'a> {
    fn of(case: &'a Case<'_>) -> Self {
        let params = case.input("params");
        Self {
            algorithm: params["algorithm"].as_str().expect("a name"),
            headers: params["headers"].as_array().expect("names").iter().filter_map(Value::as_str).collect(),
            created_s: params["created"].as_i64(),
            expires_s: params["expires"].as_i64(),
        }
    }

    fn request(&'a self, key_id: &'a str) -> CavageRequest<'a> {
        CavageRequest {
            key_id,
            algorithm: self.algorithm,
            headers: &self.headers,
            created_s: self.created_s,
            expires_s: self.expires_s,
        }
    }
}

pub fn sign_cavage(case: &Case<'_>) -> Run {
    let inputs = CavageInputs::of(case);
    let key = case.private()?;
    let mut fields = added(case)?;
    let request = inputs.request(case.input("key_id").as_str().expect("a key id"));
    let signature = with(&case.json["inputs"], &fields, |message| cavage::sign(message, &key, &request))?;
    fields.push(("Signature".to_owned(), signature));
    let want = pairs_of_object(&case.expected()["headers"]);
    for (name, wanted) in want {
        let got = fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str()).unwrap_or_default();
        // The order of parameters is free.
        let fits = if name == "Signature" { sorted(got)? == sorted(&wanted)? } else { got == wanted };
        if !fits {
            return same(&name, &got, &wanted.as_str());
        }
    }
    Ok(Seen::Same(Ok(())))
}

fn sorted(text: &str) -> Outcome<Owned> {
    let mut params: Owned =
        cavage::parse(text)?.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    params.sort();
    Ok(params)
}

fn pairs_of_object(object: &Value) -> Owned {
    object
        .as_object()
        .map(|fields| {
            fields.iter().map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned())).collect()
        })
        .unwrap_or_default()
}

pub fn base_cavage(case: &Case<'_>) -> Run {
    let inputs = CavageInputs::of(case);
    let base = with(&case.json["inputs"], &Vec::new(), |message| inputs.request("").base(message))?;
    same("base", &base.as_str(), &case.expected()["signature_base"].as_str().unwrap_or_default())
}

fn components(case: &Case<'_>) -> Outcome<Vec<Component<'static>>> {
    let listed = case.input("components").as_array().expect("components");
    listed
        .iter()
        .map(|component| {
            let Some(name) = component.as_str() else {
                let params = component[1]
                    .as_object()
                    .expect("parameters")
                    .iter()
                    .map(|(param, value)| Param::named(param, value.as_str().map(|text| Cow::Owned(text.to_owned()))))
                    .collect::<Outcome<Vec<_>>>()?;
                return Component::new(component[0].as_str().expect("a name").to_owned(), params);
            };
            Component::new(name.to_owned(), Vec::new())
        })
        .collect()
}

fn params<'a>(case: &'a Case<'_>) -> Vec<(&'a str, ParamValue<'a>)> {
    let listed = case.input("params").as_array().expect("parameters");
    listed
        .iter()
        .map(|param| {
            let value = match (param[1].as_i64(), param[1].as_str()) {
                (Some(number), _) => ParamValue::Integer(number),
                (_, Some(text)) => ParamValue::String(text),
                _ => ParamValue::True,
            };
            (param[0].as_str().expect("a name"), value)
        })
        .collect()
}

pub fn base_rfc9421(case: &Case<'_>) -> Run {
    let (components, params) = (components(case)?, params(case));
    let inner = inner_list(&components, &params)?;
    let base =
        with(&case.json["inputs"], &Vec::new(), |message| rfc9421::signature_base(message, &components, &inner))?;
    same("base", &base.as_str(), &case.expected()["signature_base"].as_str().unwrap_or_default())
}

pub fn sign_rfc9421(case: &Case<'_>) -> Run {
    let (components, params) = (components(case)?, params(case));
    let key = case.private()?;
    let algorithm = Algorithm::named(case.input("alg").as_str().expect("a name"))?;
    let label = case.input("label").as_str().expect("a label");
    let request = Rfc9421Request {
        label,
        algorithm,
        components: &components,
        params: &params,
        append: case.input("append") == true,
    };
    let mut fields = added(case)?;
    let signed = with(&case.json["inputs"], &fields, |message| rfc9421::sign(message, &key, &request))?;
    let expected = case.expected();
    if expected["deterministic"] == false {
        let encoded = signed.signature.split(':').nth(1).expect("a byte sequence");
        let raw = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
        let with_key = &case.keys[expected["verify_with"].as_str().expect("a key")]["public_pem"];
        let base = expected["signature_base"].as_str().expect("a base");
        PublicKey::from_pem(with_key.as_str().expect("PEM"), 2048)?.verify(algorithm, base.as_bytes(), &raw)?;
        return same(
            "Signature-Input",
            &signed.signature_input.as_str(),
            &expected["signature_input"].as_str().unwrap_or_default(),
        );
    }
    fields.push(("Signature-Input".to_owned(), signed.signature_input));
    fields.push(("Signature".to_owned(), signed.signature));
    for (name, wanted) in pairs_of_object(&expected["headers"]) {
        let got = fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()).unwrap_or_default();
        if got != wanted {
            return same(&name, &got, &wanted);
        }
    }
    Ok(Seen::Same(Ok(())))
}

pub fn verify(case: &Case<'_>) -> Run {
    let scheme = Scheme::named(case.text("scheme"))?;
    let (policy, now_s) = (case.policy(), case.input("now").as_i64().expect("a time"));
    let label = case.input("label").as_str();
    let verified = with(&case.json["inputs"], &Vec::new(), |message| {
        ojak_httpsig::verify(message, &mut Keys(case), &policy, now_s, Some(scheme), label)
    })?;
    let expected = case.expected();
    for (name, got) in [
        ("key_id", Some(verified.key_id.as_str())),
        ("algorithm", Some(verified.algorithm_name())),
        ("label", verified.label.as_deref()),
    ] {
        if let Some(wanted) = expected[name].as_str()
            && got != Some(wanted)
        {
            return same(name, &got, &Some(wanted));
        }
    }
    if let Some(covered) = expected["covered"].as_array() {
        let wanted: Vec<&str> = covered.iter().filter_map(Value::as_str).collect();
        if verified.covered != wanted {
            return same("covered", &verified.covered, &wanted.into_iter().map(str::to_owned).collect());
        }
    }
    Ok(Seen::Accepted)
}

pub fn cavage_header(case: &Case<'_>) -> Run {
    let got = cavage::parse(case.input("value").as_str().expect("a value"))?;
    let mut got: Owned = got.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    got.sort();
    let mut want = pairs_of_object(&case.expected()["params"]);
    want.sort();
    same("params", &got, &want)
}

pub fn signature_input(case: &Case<'_>) -> Run {
    let got = rfc9421::canonical_labels(case.input("value").as_str().expect("a value"))?;
    let want: Owned = case.expected()["labels"]
        .as_array()
        .map(|labels| {
            labels
                .iter()
                .filter(|label| label["not_inner_list"] != true)
                .map(|label| {
                    let text = |name: &str| label[name].as_str().expect("a text").to_owned();
                    (text("label"), text("canonical"))
                })
                .collect()
        })
        .unwrap_or_default();
    same("labels", &got, &want)
}
