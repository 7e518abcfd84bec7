//! Compares the error of each command line in `errors.txt` with what the program prints.
//!
//! A line `$ ARGUMENTS` is followed by standard error and `exit STATUS`. The commands run in a folder
//! with the files that [`prepare`] writes.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::Scratch;

const TABLE: &str = include_str!("errors.txt");
/// Minimum number of command lines in the table.
const LEAST: usize = 60;

/// Splits the table into command lines and their expected output.
fn cases() -> Vec<(&'static str, &'static str)> {
    let cases = TABLE.split("\n$ ").skip(1);
    cases.map(|case| case.split_once('\n').expect("a command line has no result")).collect()
}

/// Writes the files that the command lines use.
fn prepare(scratch: &Scratch) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    let twice = "[[server]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\nid-length = 8\n".repeat(2);
    let files: [(&str, &str); 8] = [
        ("cert.pem", &certified.cert.pem()),
        ("key.pem", &certified.signing_key.serialize_pem()),
        ("other-key.pem", &other.serialize_pem()),
        ("empty.pem", ""),
        ("text.txt", "just text\n"),
        ("no-servers.toml", "\n"),
        ("bad-server.toml", "[[server]]\nname = \"a\"\naddress = \"nowhere\"\n"),
        ("twice.toml", &twice),
    ];
    fs::create_dir(scratch.path("site")).unwrap();
    for (name, content) in files {
        fs::write(scratch.path(name), content).unwrap();
    }
}

#[test]
fn every_error_says_what_failed_and_what_to_do() {
    let scratch = Scratch::new("errors");
    prepare(&scratch);
    let cases = cases();
    assert!(cases.len() >= LEAST, "{}", cases.len());
    let mut wrong = String::new();
    for (line, expected) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_clearway"))
            .args(line.split(' ').filter(|argument| !argument.is_empty()))
            .current_dir(scratch.path(""))
            .env_remove("QLOGDIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let status = output.status.code().unwrap_or(-1);
        let actual = format!("{}\nexit {status}", errors.trim_end());
        if actual != expected.trim_end() {
            wrong.push_str(&format!("\n$ {line}\n{actual}\n"));
        }
    }
    assert!(wrong.is_empty(), "errors.txt does not agree with:\n{wrong}");
}
