// SPDX-License-Identifier: Apache-2.0
//! HTTP dates (RFC 9110 section 5.6.7), always in English and GMT, whatever the locale.

use crate::error::{Outcome, Reason, Refused, quoted};

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const LONG_DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_S: i64 = 86_400;
/// 9999-12-31T23:59:59Z: the last second whose year has four digits.
const LAST_S: i64 = 253_402_300_799;

/// Seconds since 1970 as an IMF-fixdate, such as `Thu, 09 Oct 2025 08:53:20 GMT`.
///
/// # Errors
/// `invalid_param` outside the years 1970 to 9999, which the form cannot hold.
pub fn format(at_s: i64) -> Outcome<String> {
    if !(0..=LAST_S).contains(&at_s) {
        return Err(Refused::new(
            Reason::InvalidParam,
            format!("the time {at_s} is outside the years 1970 to 9999 that an HTTP date can hold"),
        ));
    }
    let (days, second) = (at_s.div_euclid(DAY_S), at_s.rem_euclid(DAY_S));
    let (year, month, day) = civil(days);
    let mut out = String::with_capacity(29);
    // 1970-01-01 was a Thursday.
    push_name(&mut out, &DAYS, (days + 4).rem_euclid(7));
    out.push_str(", ");
    push_digits(&mut out, day, 2);
    out.push(' ');
    push_name(&mut out, &MONTHS, month - 1);
    out.push(' ');
    push_digits(&mut out, year, 4);
    out.push(' ');
    push_digits(&mut out, second / 3600, 2);
    out.push(':');
    push_digits(&mut out, second / 60 % 60, 2);
    out.push(':');
    push_digits(&mut out, second % 60, 2);
    out.push_str(" GMT");
    Ok(out)
}

fn push_name(out: &mut String, names: &[&str], index: i64) {
    out.push_str(usize::try_from(index).ok().and_then(|i| names.get(i)).copied().unwrap_or(""));
}

fn push_digits(out: &mut String, number: i64, width: u32) {
    for place in (0..width).rev() {
        let digit = number / 10_i64.pow(place) % 10;
        out.push(char::from(b'0' + u8::try_from(digit).unwrap_or(0)));
    }
}

/// Parses any of the three forms of an HTTP date: IMF-fixdate, RFC 850 and asctime. Answers seconds since 1970.
///
/// `now_s` decides the century of a two-digit year: one that would be more than 50 years ahead is of the past.
///
/// # Errors
/// `malformed_date` for anything else.
pub fn parse(text: &str, now_s: i64) -> Outcome<i64> {
    let bad = || {
        Refused::new(
            Reason::MalformedDate,
            format!("the Date {} is not an HTTP date such as 'Thu, 09 Oct 2025 08:53:20 GMT'", quoted(text)),
        )
    };
    if text.len() > 64 || !text.is_ascii() {
        return Err(bad());
    }
    imf(text).or_else(|| rfc850(text, now_s)).or_else(|| asctime(text)).ok_or_else(bad)
}

fn imf(text: &str) -> Option<i64> {
    let (day_name, rest) = text.split_once(", ")?;
    position(&DAYS, day_name)?;
    let rest = rest.strip_suffix(" GMT")?;
    let mut parts = rest.split(' ');
    let (day, month, year, clock) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    seconds(digits(year, 4)?, position(&MONTHS, month)? + 1, digits(day, 2)?, clock)
}

fn rfc850(text: &str, now_s: i64) -> Option<i64> {
    let (day_name, rest) = text.split_once(", ")?;
    position(&LONG_DAYS, day_name)?;
    let (date, clock) = rest.strip_suffix(" GMT")?.split_once(' ')?;
    let mut parts = date.split('-');
    let (day, month, short_year) = (parts.next()?, parts.next()?, digits(parts.next()?, 2)?);
    if parts.next().is_some() {
        return None;
    }
    let (this_year, _, _) = civil(now_s.div_euclid(DAY_S));
    let mut year = this_year - this_year.rem_euclid(100) + short_year;
    if year > this_year + 50 {
        year -= 100;
    }
    seconds(year, position(&MONTHS, month)? + 1, digits(day, 2)?, clock)
}

fn asctime(text: &str) -> Option<i64> {
    // "Sun Nov  6 08:49:37 1994": the day is padded with a space.
    let (day_name, rest) = text.split_once(' ')?;
    position(&DAYS, day_name)?;
    let (month, rest) = rest.split_once(' ')?;
    let (day, rest) = match rest.strip_prefix(' ') {
        Some(padded) => padded.split_once(' ').and_then(|(d, r)| Some((digits(d, 1)?, r)))?,
        None => rest.split_once(' ').and_then(|(d, r)| Some((digits(d, 2)?, r)))?,
    };
    let (clock, year) = rest.split_once(' ')?;
    seconds(digits(year, 4)?, position(&MONTHS, month)? + 1, day, clock)
}

fn position(names: &[&str], name: &str) -> Option<i64> {
    names.iter().position(|known| *known == name).and_then(|index| i64::try_from(index).ok())
}

pub(crate) fn digits(text: &str, width: usize) -> Option<i64> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

pub(crate) fn seconds(year: i64, month: i64, day: i64, clock: &str) -> Option<i64> {
    let mut parts = clock.split(':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    // 60 is a leap second.
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    (civil(days) == (year, month, day)).then(|| days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar (H. Hinnant's algorithm).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}
