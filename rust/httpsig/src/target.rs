// SPDX-License-Identifier: Apache-2.0
//! The target of a request: a URL cut into what stands on the wire and in a signature.
//!
//! Path and query stay byte for byte as they were given: what is signed is what is sent.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use crate::error::{Outcome, Reason, Refused, quoted};

/// The longest URL that is taken.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// An absolute http or https URL, cut into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host in lower case, with the port unless it is the default one: the Host header and `@authority`.
    pub authority: Cow<'a, str>,
    /// The path, `/` if there is none.
    pub path: &'a str,
    /// The query without its question mark; `None` if there is no question mark.
    pub query: Option<&'a str>,
}

fn bad(url: &str, what: &str) -> Refused {
    Refused::new(Reason::InvalidUrl, format!("the URL {} {what}", quoted(url)))
}

impl<'a> Target<'a> {
    /// Cuts a URL.
    ///
    /// # Errors
    /// `invalid_url` for one that is not absolute http or https, has userinfo, an impossible host or port, or a
    /// control character, space or raw non-ASCII character in its path or query, and for one that is too long.
    pub fn parse(url: &'a str) -> Outcome<Self> {
        if url.len() > MAX_URL_BYTES {
            return Err(Refused::new(
                Reason::InvalidUrl,
                format!("the URL has {} bytes; at most {MAX_URL_BYTES} are allowed", url.len()),
            ));
        }
        let (scheme, rest, default_port) = split_scheme(url)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let authority = authority_of(url, authority, default_port)?;
        let tail = tail.split_once('#').map_or(tail, |(before, _)| before);
        if let Some(byte) = tail.bytes().find(|b| !(0x21..=0x7e).contains(b)) {
            let what = if byte >= 0x80 { "a raw non-ASCII character" } else { "a space or control character" };
            return Err(bad(url, &format!("has {what} in its path or query; percent-encode it")));
        }
        let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { scheme, authority, path, query })
    }

    /// Appends path and query, as in the request line.
    pub fn push_request_target(&self, out: &mut String) {
        out.push_str(self.path);
        if let Some(query) = self.query {
            out.push('?');
            out.push_str(query);
        }
    }

    /// Path and query, as in the request line (origin-form).
    #[must_use]
    pub fn request_target(&self) -> String {
        let mut out = String::with_capacity(self.path.len() + self.query.map_or(0, str::len) + 1);
        self.push_request_target(&mut out);
        out
    }

    /// Appends the whole URI without a fragment (RFC 9421 section 2.2.2).
    pub fn push_target_uri(&self, out: &mut String) {
        out.push_str(self.scheme);
        out.push_str("://");
        out.push_str(&self.authority);
        self.push_request_target(out);
    }

    /// The whole URI without a fragment (RFC 9421 section 2.2.2).
    #[must_use]
    pub fn target_uri(&self) -> String {
        let mut out = String::with_capacity(self.authority.len() + self.path.len() + 16);
        self.push_target_uri(&mut out);
        out
    }

    /// Whether the value of a Host field names this authority: in any case, and with the default port or without.
    #[must_use]
    pub fn is_authority(&self, host: &str) -> bool {
        let bare = host.strip_suffix(if self.scheme == "https" { ":443" } else { ":80" }).unwrap_or(host);
        bare.eq_ignore_ascii_case(&self.authority)
    }

    /// The query with its question mark, a lone one if there is none: the value of `@query`.
    #[must_use]
    pub fn query_component(&self) -> String {
        let mut out = String::from("?");
        out.push_str(self.query.unwrap_or_default());
        out
    }
}

/// The scheme and the authority of a URL, whatever stands after them.
///
/// # Errors
/// `invalid_url`.
pub fn origin(url: &str) -> Outcome<(&'static str, Cow<'_, str>)> {
    let (scheme, rest, default_port) = split_scheme(url)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, _) = rest.split_at(end);
    Ok((scheme, authority_of(url, authority, default_port)?))
}

fn split_scheme(url: &str) -> Outcome<(&'static str, &str, &'static str)> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad(url, "is not absolute; http or https is wanted"))?;
    if scheme.eq_ignore_ascii_case("https") {
        Ok(("https", rest, "443"))
    } else if scheme.eq_ignore_ascii_case("http") {
        Ok(("http", rest, "80"))
    } else {
        Err(bad(url, "has another scheme than http or https"))
    }
}

fn authority_of<'a>(url: &str, authority: &'a str, default_port: &str) -> Outcome<Cow<'a, str>> {
    if authority.contains('@') {
        return Err(bad(url, "has a user name or password in it; those are not allowed"));
    }
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']').ok_or_else(|| bad(url, "has an IPv6 address without its ']'"))?;
        let (host, port) = authority.split_at(end + 1);
        let inside = host.get(1..end).unwrap_or("");
        inside.parse::<Ipv6Addr>().map_err(|_| bad(url, "has an impossible IPv6 address"))?;
        (host, port)
    } else {
        authority.split_at(authority.find(':').unwrap_or(authority.len()))
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port,
        None if port.is_empty() => "",
        None => return Err(bad(url, "has something after the ']' that is not a port")),
    };
    let possible = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|number| number > 0);
    if !port.is_empty() && !possible {
        return Err(bad(url, "has an impossible port; 1 to 65535 is allowed"));
    }
    let port = port.trim_start_matches('0');
    let shown = if port.is_empty() || port == default_port { None } else { Some(port) };
    if host.starts_with('[') {
        return Ok(with_port(Cow::Owned(host.to_ascii_lowercase()), shown));
    }
    let host = host_of(url, host)?;
    Ok(match (&host, shown) {
        // What was given is already in its one form: nothing is copied.
        (Cow::Borrowed(given), Some(port)) if authority.len() == given.len() + 1 + port.len() => {
            Cow::Borrowed(authority)
        }
        _ => with_port(host, shown),
    })
}

fn with_port<'a>(host: Cow<'a, str>, port: Option<&str>) -> Cow<'a, str> {
    match port {
        None => host,
        Some(port) => {
            let mut owned = host.into_owned();
            owned.push(':');
            owned.push_str(port);
            Cow::Owned(owned)
        }
    }
}

/// A host in lower-case A-labels. ASCII names pass as they are, even A-labels that cannot be decoded.
fn host_of<'a>(url: &str, host: &'a str) -> Outcome<Cow<'a, str>> {
    if host.is_empty() {
        return Err(bad(url, "has no host"));
    }
    let name = if host.is_ascii() {
        if host.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Owned(host.to_ascii_lowercase())
        } else {
            Cow::Borrowed(host)
        }
    } else {
        let encoded = idna::domain_to_ascii_cow(host.as_bytes(), idna::AsciiDenyList::URL)
            .map_err(|_| bad(url, "has a host that is not a domain name by IDNA (UTS 46)"))?;
        Cow::Owned(encoded.into_owned())
    };
    let labels = name.strip_suffix('.').unwrap_or(&name);
    let fits = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    if name.len() > 255 || !labels.split('.').all(fits) {
        return Err(bad(url, "has a host that is not a domain name or an address"));
    }
    Ok(name)
}
