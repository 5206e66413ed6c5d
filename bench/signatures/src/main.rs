// SPDX-License-Identifier: Apache-2.0
//! What signatures cost in Rust. Prints one JSON object of microseconds; `run.py` puts it beside what Python sees.
//!
//! Each figure is the best of many short rounds, so that what else runs on the machine shows as little as possible.

use std::hint::black_box;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ojak_httpsig::digest::BodyDigest;
use ojak_httpsig::key::{KeyKind, PrivateKey, PublicKey};
use ojak_httpsig::policy::Scheme;
use ojak_httpsig::profile::{Outgoing, sign};

const KEY_ID: &str = "https://alice.example/users/alice#main-key";
const URL: &str = "https://remote.example/users/bob/inbox";

/// The best time of a run of `turns`, in microseconds a turn.
fn best_us(turns: u32, mut run: impl FnMut()) -> f64 {
    let rounds = 60;
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..turns {
                run();
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(turns)
        })
        .fold(f64::INFINITY, f64::min)
}

fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).expect("base64")
}

fn main() {
    let rsa = PrivateKey::generate_rsa(2048).expect("a key");
    let ed25519 = PrivateKey::generate_ed25519().expect("a key");
    let (rsa_pem, ed25519_pem) = (rsa.to_pem().expect("PEM"), ed25519.to_pem().expect("PEM"));
    let public_pem = rsa.public_key().expect("a key").to_pem();
    let body = vec![b'x'; 2048];
    let digest = BodyDigest::new(&body);
    let outgoing = Outgoing {
        method: "POST",
        url: URL,
        digest: Some(&digest),
        covered: &[],
        now_s: 1_760_000_000,
        accept_signature: None,
    };
    let message = [b'm'; 200];
    let mut figures: Vec<(String, f64)> = Vec::new();
    let mut note = |name: &str, us: f64| figures.push((name.to_owned(), us));

    for (scheme, word) in [(Scheme::Cavage, "cavage"), (Scheme::Rfc9421, "rfc9421")] {
        for (key, kind, turns) in [(&rsa, "rsa2048", 5), (&ed25519, "ed25519", 100)] {
            let us = best_us(turns, || {
                black_box(sign(key, KEY_ID, scheme, &outgoing).expect("signed"));
            });
            note(&format!("sign_{word}_{kind}"), us);
        }
        let stub = PrivateKey::stub(KeyKind::Rsa);
        let us = best_us(1000, || {
            black_box(sign(&stub, KEY_ID, scheme, &outgoing).expect("signed"));
        });
        note(&format!("rest_{word}"), us);
    }
    note("digest_2048_bytes", best_us(1000, || drop(black_box(BodyDigest::new(black_box(&body))))));
    note("load_rsa2048_private", best_us(10, || drop(black_box(PrivateKey::from_pem(&rsa_pem, 2048)))));
    note("load_rsa2048_public", best_us(10, || drop(black_box(PublicKey::from_pem(&public_pem, 2048)))));
    note("load_ed25519_private", best_us(100, || drop(black_box(PrivateKey::from_pem(&ed25519_pem, 2048)))));

    let pair = aws_lc_rs::rsa::KeyPair::from_pkcs8(&der(&rsa_pem)).expect("a key");
    let mut signature = vec![0; pair.public_modulus_len()];
    let us = best_us(5, || {
        let random = aws_lc_rs::rand::SystemRandom::new();
        pair.sign(&aws_lc_rs::signature::RSA_PKCS1_SHA256, &random, &message, &mut signature).expect("signed");
    });
    note("bare_rsa2048_aws_lc_rs", us);
    let pair = ring::rsa::KeyPair::from_pkcs8(&der(&rsa_pem)).expect("a key");
    let mut signature = vec![0; pair.public().modulus_len()];
    let us = best_us(5, || {
        let random = ring::rand::SystemRandom::new();
        pair.sign(&ring::signature::RSA_PKCS1_SHA256, &random, &message, &mut signature).expect("signed");
    });
    note("bare_rsa2048_ring", us);
    let pair = aws_lc_rs::signature::Ed25519KeyPair::from_pkcs8(&der(&ed25519_pem)).expect("a key");
    note(
        "bare_ed25519_aws_lc_rs",
        best_us(100, || {
            black_box(pair.sign(&message));
        }),
    );
    let pair = ring::signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der(&ed25519_pem)).expect("a key");
    note(
        "bare_ed25519_ring",
        best_us(100, || {
            black_box(pair.sign(&message));
        }),
    );

    let lines: Vec<String> = figures.iter().map(|(name, us)| format!("\"{name}\": {us:.2}")).collect();
    println!("{{{}}}", lines.join(", "));
}
