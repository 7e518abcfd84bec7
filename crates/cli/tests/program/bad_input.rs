//! Tests invalid input of every kind: it causes one clear line, a nonzero exit status, and no
//! incomplete file.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use crate::support::{Running, Scratch, clearway, fail, fixture};

/// Asserts that a line contains all of `expected`.
fn assert_says(line: &str, expected: &[&str]) {
    for part in expected {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
}

#[test]
fn certificates_that_are_not_trusted() {
    let scratch = Scratch::new("untrusted");
    scratch.fill("root/file", 10);
    let other = Scratch::new("untrusted-other");
    other.fill("root/file", 10);
    let server = Running::serve(&scratch, "root", &[]);
    let _other_server = Running::serve(&other, "root", &[]);
    let (right, wrong) = (scratch.path("cert.pem"), other.path("cert.pem"));
    let output = scratch.path("file");
    let line = fail(&["get", "--ca", &wrong, "-o", &output, &server.url("file")]);
    assert_says(&line, &[&server.address, "certificate", "--ca"]);
    let named = "https://example.test/file";
    let line = fail(&["get", "--ca", &right, "--connect", &server.address, "-o", &output, named]);
    assert_says(&line, &["example.test", "different name"]);
    assert_eq!(scratch.names(), ["cert.pem", "root"]);
}

/// Starts a server whose certificate was modified by `change`. Returns the error line of a client
/// that trusts the certificate.
fn line_about(name: &str, change: impl FnOnce(&mut rcgen::CertificateParams)) -> String {
    let scratch = Scratch::new(name);
    let mut certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    change(&mut certificate);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = certificate.self_signed(&key).unwrap().pem();
    let (file, key_file) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    fs::write(&file, certificate).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let server = Running::serve_as(&scratch, "", &["--cert", &file, "--key", &key_file]);
    let output = scratch.path("output");
    let line = fail(&["get", "--ca", &file, "-o", &output, &server.url("key.pem")]);
    assert_eq!(scratch.names(), ["cert.pem", "key.pem"]);
    line
}

/// A certificate like those created by `openssl req -x509`.
#[test]
fn certificates_of_an_authority() {
    let line = line_about("authority", |certificate| {
        certificate.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    });
    assert_says(&line, &["localhost", "not acceptable", "basicConstraints=critical,CA:FALSE"]);
}

/// To simulate a full disk, files are limited to 512 bytes or 1 kB, depending on the shell.
#[test]
fn a_file_that_cannot_be_written_to_its_end() {
    let scratch = Scratch::new("too-large");
    scratch.fill("root/file", 100_000);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let get = ["get", "--ca", &certificate, "-o", &output, &server.url("file")];
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_clearway")]);
    let result = command.args(get).output().unwrap();
    assert_eq!(result.status.code(), Some(1));
    let errors = String::from_utf8(result.stderr).unwrap();
    assert_says(&errors, &["clearway: cannot write", &output, "too large"]);
    assert_eq!(scratch.names(), ["cert.pem", "root"]);
}

#[test]
fn servers_that_cannot_be_reached() {
    let scratch = Scratch::new("unreachable");
    let output = scratch.path("file");
    let certificate = certificate(&scratch);
    let unknown = "https://no-such-host.invalid/a";
    let line = fail(&["get", "--ca", &certificate, "-o", &output, unknown]);
    assert_says(&line, &["no-such-host.invalid", "check the name"]);
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    let url = format!("https://{address}/file");
    let line = fail(&["get", "--timeout", "400ms", "--ca", &certificate, "-o", &output, &url]);
    assert_says(&line, &["timed out after 400ms", "--timeout"]);
    drop(nobody);
    let line = fail(&["get", "--ca", &certificate, "-o", &output, &url]);
    assert_says(&line, &["over QUIC (UDP): unreachable", "not support HTTP/3", &address]);
    assert_eq!(scratch.names(), ["cert.pem"]);
}

/// Returns the certificate of a server that is no longer running.
fn certificate(scratch: &Scratch) -> String {
    let root = Scratch::new("certificate-root");
    root.fill("root/file", 1);
    Running::serve(&root, "root", &[]).interrupt();
    fs::copy(root.path("cert.pem"), scratch.path("cert.pem")).unwrap();
    scratch.path("cert.pem")
}

#[test]
fn a_server_that_stops_in_the_middle() {
    let scratch = Scratch::new("stops");
    scratch.fill("root/file", 3_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let blackhole = ["--loss", "100%", "--loss-after-bytes", "500kB"];
    let link = Running::link(&server.address, &blackhole);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    fs::write(&output, "as before").unwrap();
    let url = server.url("file");
    let connect = ["get", "--ca", &certificate, "--connect", &link.address];
    let rest = ["--idle-timeout", "500ms", "-o", &output, &url];
    let line = fail(&[&connect[..], &rest[..]].concat());
    assert_says(&line, &[&url, "aborted", "of 3.0 MB", "idle timeout"]);
    assert_eq!(fs::read(&output).unwrap(), b"as before");
    assert_eq!(scratch.names(), ["cert.pem", "file", "root"]);
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    assert!(counters["to_client"]["lost_random"].as_u64().unwrap() > 0, "{counters}");
}

#[test]
fn servers_with_another_application_protocol() {
    let scratch = Scratch::new("protocol");
    scratch.fill("root/file", 10);
    let server = Running::serve(&scratch, "root", &["--http09"]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("out"));
    let line = fail(&["get", "--ca", &certificate, "-o", &output, &server.url("file")]);
    assert_says(&line, &[&server.address, "does not support", "--http09"]);
    assert_eq!(scratch.names(), ["cert.pem", "root"]);
}

#[test]
fn responses_that_are_not_files() {
    let scratch = Scratch::new("answers");
    scratch.fill("root/folder/file", 10);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("out"));
    let get = |path: &str, output: &str| {
        fail(&["get", "--ca", &certificate, "-o", output, &server.url(path)])
    };
    assert_says(&get("missing", &output), &["/missing", "404", "check the path"]);
    assert_says(&get("folder", &output), &["301", "/folder/"]);
    assert_says(&get("folder/", &output), &["404"]);
    assert_says(&get("folder/file", &scratch.path("no/out")), &["the folder does not exist"]);
    assert_says(&get("folder/file", &scratch.path("root")), &["it is a folder"]);
    assert_eq!(scratch.names(), ["cert.pem", "root"]);
}

#[test]
fn addresses_and_files_that_cannot_be_used() {
    let scratch = Scratch::new("unusable");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (root, missing) = (scratch.path(""), scratch.path("missing"));
    fs::write(scratch.path("text"), "not a certificate").unwrap();
    let text = scratch.path("text");
    let line = fail(&["serve", &root, "--listen", &taken]);
    assert_says(&line, &[&taken, "in use", "--listen"]);
    let line = fail(&["link", "--listen", &taken, "--to", "127.0.0.1:1"]);
    assert_says(&line, &["UDP", &taken, "in use"]);
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = held.local_addr().unwrap().to_string();
    let line = fail(&["view", "--no-open", "--listen", &held, &fixture("quinn-small.sqlog.gz")]);
    assert_says(&line, &["TCP", &held, "in use", "--listen"]);
    let line = fail(&["serve", &root, "--listen", "127.0.0.1:0", "--live", &held]);
    assert_says(&line, &["TCP", &held, "in use", "--live"]);
    assert_says(&fail(&["serve", &missing]), &[&missing, "No such file"]);
    let line = fail(&["serve", &root, "--cert", &missing, "--key", &missing]);
    assert_says(&line, &[&missing, "certificate", "No such file"]);
    let line = fail(&["serve", &root, "--cert", &text, "--key", &text]);
    assert_says(&line, &[&text, "PEM"]);
    let line = fail(&["get", "--ca", &text, "https://localhost/"]);
    assert_says(&line, &[&text, "PEM"]);
    let line = fail(&["serve", &root, "--qlog", &scratch.path("text/below")]);
    assert_says(&line, &["qlog", "--qlog"]);
    assert_says(&fail(&["demo", "--qlog", &scratch.path("text/below")]), &["qlog", "--qlog"]);
}

#[test]
fn arguments_that_make_no_sense() {
    let code = |arguments: &[&str]| clearway(arguments).output().unwrap().status.code();
    assert_eq!(code(&["get"]), Some(2));
    assert_eq!(code(&["frobnicate"]), Some(2));
    assert_eq!(code(&["demo", "--loss", "30"]), Some(2));
    assert_eq!(code(&["demo", "--controller", "vegas"]), Some(2));
    assert_eq!(code(&["demo", "--runs", "0"]), Some(2));
    assert_eq!(code(&["serve", "--cert", "a.pem"]), Some(2));
    assert_eq!(code(&["link", "--to", "127.0.0.1:1", "--delay", "soon"]), Some(2));
    for url in ["http://localhost/", "localhost", "https://"] {
        assert_says(&fail(&["get", url]), &[url, "https://"]);
    }
    let several = ["get", "-o", "x", "https://localhost/a", "https://localhost/b"];
    assert_says(&fail(&several), &["one file", "-O"]);
    assert_says(&fail(&["get", "--json", "https://localhost/a"]), &["--json", "--output"]);
    let line = fail(&["link", "--to", "127.0.0.1:1", "--loss-for", "2s"]);
    assert_says(&line, &["a loss period is set, but no loss"]);
    assert_says(&fail(&["link", "--to", "127.0.0.1"]), &["127.0.0.1", "host:port"]);
}
