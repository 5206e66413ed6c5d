// SPDX-License-Identifier: Apache-2.0
//! The corpus, run on the crate itself: every case of `tests/vectors`, by its id.
// A test says what it expects by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod cases;

use std::path::Path;

use cases::{Case, Verdict, run};
use serde_json::Value;

#[test]
fn every_case_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let (mut passed, mut failed) = (0, Vec::new());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        for case in file["cases"].as_array().expect("cases") {
            let case = Case { json: case, keys: &file["keys"] };
            match run(&case) {
                Verdict::Pass => passed += 1,
                Verdict::Fail(why) => failed.push(format!("{}: {why}", case.id())),
            }
        }
    }
    println!("corpus: {passed} passed, {} failed", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(passed, 473, "no case is missing");
}
