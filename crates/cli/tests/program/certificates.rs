//! Tests certificates of `serve` and `get`: several certificates, renewal during a download, client
//! certificates, key exchange groups, and ECH.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, date_time_ymd,
};
use rustix::process::Signal;

use crate::support::{Running, Scratch, clearway, fail, succeed};

/// Asserts that a line contains all of `expected`.
fn assert_says(line: &str, expected: &[&str]) {
    for part in expected {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
}

/// A certificate authority; its certificate is in the file `NAME.ca` in the directory.
struct Authority<'a> {
    scratch: &'a Scratch,
    issuer: Issuer<'static, KeyPair>,
    /// The path of the authority's certificate.
    file: String,
}

impl<'a> Authority<'a> {
    fn new(scratch: &'a Scratch, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        let file = scratch.path(&format!("{name}.ca"));
        fs::write(&file, certificate.pem()).unwrap();
        Self { scratch, issuer: Issuer::new(parameters, key), file }
    }

    fn sign(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Certificate, KeyPair) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a certificate and its key to `FILE.pem` and `FILE.key`. Returns the paths.
    fn write(
        &self,
        file: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> [String; 2] {
        let (certificate, key) = self.sign(names, change);
        let paths =
            [format!("{file}.pem"), format!("{file}.key")].map(|name| self.scratch.path(&name));
        // The files are replaced atomically.
        for (path, content) in paths.iter().zip([certificate.pem(), key.serialize_pem()]) {
            fs::write(format!("{path}.new"), content).unwrap();
            fs::rename(format!("{path}.new"), path).unwrap();
        }
        paths
    }
}

fn expired(parameters: &mut CertificateParams) {
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2020, 2, 1);
}

fn for_clients(parameters: &mut CertificateParams) {
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

/// Starts a server for `root` whose standard error can be read.
fn serve(scratch: &Scratch, more: &[&str]) -> Running {
    let root = scratch.path("root");
    let arguments = [&["serve", &root, "--listen", "127.0.0.1:0"][..], more].concat();
    let mut command = clearway(&arguments);
    command.stderr(Stdio::piped());
    Running::listening(command)
}

/// Waits until the server prints a line that contains all of `expected`. If a change is detected
/// before the signal arrives, there is an additional line.
fn wait_for(server: &mut Running, expected: &[&str]) {
    loop {
        let line = server.error_line();
        assert!(!line.is_empty(), "the server has ended without {expected:?}");
        if expected.iter().all(|part| line.contains(part)) {
            return;
        }
    }
}

/// Returns the output of a server that cannot start.
fn refused(more: &[&str]) -> String {
    fail(&[&["serve", "--listen", "127.0.0.1:0"][..], more].concat())
}

/// A paused download that continues only when `rest` is called.
struct Paused(std::process::Child);

impl Paused {
    fn begin(authority: &str, url: &str) -> Self {
        let mut command = clearway(&["get", "--ca", authority, url]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        // The pipe holds only a small part of the content.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Self(child)
    }

    /// Returns everything except the first byte.
    fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success());
        rest
    }
}

/// Each new certificate comes from another authority, so that a client's success shows which
/// certificate it received.
#[test]
fn certificates_are_reloaded_while_a_download_runs() {
    let scratch = Scratch::new("reload");
    let content = scratch.fill("root/file", 30_000_000);
    scratch.fill("root/small", 10);
    let authorities = ["first", "second", "third"].map(|name| Authority::new(&scratch, name));
    let [first, second, third] = &authorities;
    let [certificate, key] = first.write("server", &["localhost"], |_| {});
    let mut server = serve(&scratch, &["--cert", &certificate, "--key", &key]);
    let (url, small) = (server.url("file"), server.url("small"));
    let download = Paused::begin(&first.file, &url);
    let get =
        |authority: &Authority<'_>| clearway(&["get", "--ca", &authority.file, &small]).output();
    let accepts = |authority| get(authority).unwrap().status.success();

    second.write("server", &["localhost", "www.example.org"], |_| {});
    server.signal(Signal::HUP);
    wait_for(&mut server, &["reloaded", &certificate, "www.example.org", "valid until"]);
    assert!(accepts(second) && !accepts(first));

    // The files are also reloaded without a signal, when they have changed.
    third.write("server", &["localhost", "www.example.net"], |_| {});
    wait_for(&mut server, &["reloaded", &certificate, "www.example.net"]);
    assert!(accepts(third) && !accepts(second));

    assert_eq!(download.rest(), content[1..]);
    server.interrupt();
}

#[test]
fn a_wrong_certificate_does_not_replace_a_right_one() {
    let scratch = Scratch::new("reload-wrong");
    scratch.fill("root/file", 10);
    let authority = Authority::new(&scratch, "authority");
    let [certificate, key] = authority.write("server", &["localhost"], |_| {});
    let right = [&certificate, &key].map(|path| fs::read(path).unwrap());
    let mut server = serve(&scratch, &["--cert", &certificate, "--key", &key]);
    let url = server.url("file");
    let mut is_kept = |expected: &[&str]| {
        server.signal(Signal::HUP);
        wait_for(&mut server, &[&["not reloaded", "stay in use"], expected].concat());
        succeed(&["get", "--ca", &authority.file, &url]);
    };
    authority.write("server", &["localhost"], expired);
    is_kept(&[&certificate, "expired", "2020", "renew"]);
    let other = KeyPair::generate().unwrap().serialize_pem();
    fs::write(&key, other).unwrap();
    fs::write(&certificate, &right[0]).unwrap();
    is_kept(&[&key, &certificate, "does not belong"]);
    fs::write(&key, "").unwrap();
    is_kept(&[&key, "no private key"]);
    fs::remove_file(&key).unwrap();
    is_kept(&[&key, "cannot read"]);
    fs::write(&key, &right[1]).unwrap();
    server.signal(Signal::HUP);
    wait_for(&mut server, &["reloaded the certificate", &certificate]);
    server.interrupt();
}

/// SIGHUP does not end a server without certificate files either.
#[test]
fn a_generated_certificate_stays() {
    let scratch = Scratch::new("reload-generated");
    scratch.fill("root/file", 10);
    let server = Running::serve(&scratch, "root", &[]);
    server.signal(Signal::HUP);
    succeed(&["get", "--ca", &scratch.path("cert.pem"), &server.url("file")]);
    server.interrupt();
}

#[test]
fn the_name_in_the_url_chooses_the_certificate() {
    let scratch = Scratch::new("several");
    let content = scratch.fill("root/file", 10);
    let authorities = ["first", "second"].map(|name| Authority::new(&scratch, name));
    let [first, second] = &authorities;
    let [certificate, key] = first.write("first", &["localhost", "*.example.org"], |_| {});
    let [other_certificate, other_key] = second.write("second", &["www.example.org"], |_| {});
    let arguments =
        ["--cert", &certificate, "--key", &key, "--cert", &other_certificate, "--key", &other_key];
    let server = serve(&scratch, &arguments);
    for (name, authority) in
        [("localhost", first), ("www.example.org", second), ("other.example.org", first)]
    {
        let url = format!("https://{name}/file");
        let got = succeed(&["get", "--ca", &authority.file, "--connect", &server.address, &url]);
        assert_eq!(got.stdout, content, "{name}");
    }
    server.interrupt();
}

#[test]
fn clients_are_asked_for_certificates() {
    let scratch = Scratch::new("clients");
    let content = scratch.fill("root/file", 10);
    let authority = Authority::new(&scratch, "authority");
    let stranger = Authority::new(&scratch, "stranger");
    let [certificate, key] = authority.write("server", &["localhost"], |_| {});
    let [mine, my_key] = authority.write("client", &[], for_clients);
    let [strange, strange_key] = stranger.write("strange", &[], for_clients);
    let [wrong, wrong_key] = authority.write("wrong", &[], |parameters| {
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    for http09 in [&[][..], &["--http09"]] {
        let asking = ["--cert", &certificate, "--key", &key, "--client-ca", &authority.file];
        let server = serve(&scratch, &[&asking, http09].concat());
        let (url, output) = (server.url("file"), scratch.path("output"));
        let get = [&["get", "--ca", &authority.file, "-o", &output, &url][..], http09].concat();
        succeed(&[&get[..], &["--cert", &mine, "--key", &my_key]].concat());
        assert_eq!(fs::read(&output).unwrap(), content);
        let line = fail(&get);
        assert_says(&line, &["localhost", "only clients with a certificate", "--cert FILE --key"]);
        let line = fail(&[&get[..], &["--cert", &strange, "--key", &strange_key]].concat());
        assert_says(&line, &["localhost", "rejected", "does not trust the issuer"]);
        let line = fail(&[&get[..], &["--cert", &wrong, "--key", &wrong_key]].concat());
        assert_says(&line, &["localhost", "rejected", "client authentication"]);
        server.interrupt();
        let optional = [&asking[..], &["--client-certificate", "optional"], http09].concat();
        let server = serve(&scratch, &optional);
        let url = server.url("file");
        let get = [&["get", "--ca", &authority.file, &url][..], http09].concat();
        assert_eq!(succeed(&get).stdout, content);
        let line = fail(&[&get[..], &["--cert", &strange, "--key", &strange_key]].concat());
        assert_says(&line, &["does not trust the issuer"]);
        server.interrupt();
    }
}

/// Once the authority is replaced, a client that holds a session must authenticate again.
#[test]
fn the_authority_of_clients_is_reloaded() {
    let scratch = Scratch::new("reload-clients");
    let content = scratch.fill("root/file", 10);
    let [own, before, after] =
        ["own", "before", "after"].map(|name| Authority::new(&scratch, name));
    let [certificate, key] = own.write("server", &["localhost"], |_| {});
    let [mine, my_key] = before.write("client", &[], for_clients);
    let [other, other_key] = after.write("other", &[], for_clients);
    let (ca, keys) = (scratch.path("clients.pem"), scratch.path("ticket-key"));
    fs::write(&ca, fs::read(&before.file).unwrap()).unwrap();
    fs::write(&keys, "07".repeat(32)).unwrap();
    let asking = ["--cert", &certificate, "--key", &key, "--client-ca", &ca];
    let mut server = serve(&scratch, &[&asking[..], &["--ticket-keys", &keys]].concat());
    let (url, sessions) = (server.url("file"), scratch.path("sessions"));
    let get = ["get", "--ca", &own.file, "--sessions", &sessions, &url];
    let get_mine = [&get[..], &["--cert", &mine, "--key", &my_key]].concat();
    for _ in 0..2 {
        assert_eq!(succeed(&get_mine).stdout, content);
    }
    // An unreadable file changes nothing.
    fs::write(&ca, "").unwrap();
    server.signal(Signal::HUP);
    wait_for(&mut server, &["client CA was not reloaded", "stays in use", &ca]);
    assert_eq!(succeed(&get_mine).stdout, content);
    fs::write(&ca, fs::read(&after.file).unwrap()).unwrap();
    server.signal(Signal::HUP);
    wait_for(&mut server, &["reloaded the client CA", &ca, ": 1 certificate\n"]);
    assert_says(&fail(&get_mine), &["localhost", "rejected", "does not trust the issuer"]);
    let get_other = [&get[..], &["--cert", &other, "--key", &other_key]].concat();
    assert_eq!(succeed(&get_other).stdout, content);
    server.interrupt();
}

/// The message says which file is invalid, and how to fix it.
#[test]
fn files_that_cannot_be_used() {
    let scratch = Scratch::new("unusable");
    let authority = Authority::new(&scratch, "authority");
    let [certificate, key] = authority.write("server", &["localhost"], |_| {});
    let [old, old_key] = authority.write("old", &["localhost"], expired);
    let [early, early_key] = authority.write("early", &["localhost"], |parameters| {
        parameters.not_before = date_time_ymd(3000, 1, 1);
        parameters.not_after = date_time_ymd(3001, 1, 1);
    });
    let file = |name: &str, content: &str| {
        let path = scratch.path(name);
        fs::write(&path, content).unwrap();
        path
    };
    let text = fs::read_to_string(&key).unwrap();
    let encrypted = file("encrypted", &text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"));
    let (empty, cut) = (file("empty", ""), file("cut", &text[..text.len() / 2]));
    let nonsense =
        file("nonsense", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
    let missing = scratch.path("missing");
    for (arguments, expected) in [
        ([&certificate, &old_key], [&*certificate, &old_key, "does not belong"]),
        ([&certificate, &encrypted], [&encrypted, "password", "openssl pkey"]),
        ([&certificate, &missing], [&missing, "cannot read the private key", "permissions"]),
        ([&missing, &key], [&missing, "cannot read the certificate", "permissions"]),
        ([&certificate, &empty], [&empty, "no private key", "PEM"]),
        ([&empty, &key], [&empty, "no certificate", "PEM"]),
        ([&certificate, &cut], [&cut, "cannot parse the private key", "PEM"]),
        ([&nonsense, &key], [&nonsense, "cannot use the certificate", "X.509"]),
        ([&old, &old_key], [&old, "expired on Sat, 01 Feb 2020", "renew"]),
        ([&early, &early_key], [&early, "not valid before", "clock"]),
    ] {
        assert_says(&refused(&["--cert", arguments[0], "--key", arguments[1]]), &expected);
        let [certificate, key] = arguments;
        let of_client =
            ["get", "--insecure", "--cert", certificate, "--key", key, "https://localhost:1/"];
        let output = clearway(&of_client).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_says(line.lines().last().unwrap(), &expected);
    }
    let line = refused(&["--cert", &certificate, "--cert", &old, "--key", &key]);
    assert_says(&line, &["--cert is given 2 times", "--key 1 times", "in the same order"]);
    let line = refused(&["--cert", &certificate, "--key", &key, "--client-ca", &empty]);
    assert_says(&line, &[&empty, "no certificate"]);
    for wrong in [
        &["serve", "--cert", &certificate][..],
        &["serve", "--key", &key],
        &["serve", "--client-certificate", "optional"],
        &["serve", "--client-ca", &certificate, "--client-certificate", "maybe"],
        &["serve", "--cert", &certificate, "--key", &key, "--save-cert", &missing],
        &["get", "--cert", &certificate, "https://localhost/"],
        &["get", "--key-exchange-groups", "x448", "https://localhost/"],
    ] {
        assert_eq!(clearway(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_key_exchange_is_post_quantum_and_can_be_chosen() {
    let scratch = Scratch::new("key-exchange");
    scratch.fill("root/file", 10);
    for (server, client, expected) in [
        (&[][..], &[][..], "X25519MLKEM768"),
        (&["--key-exchange-groups", "x25519"], &[], "X25519"),
        (&["--key-exchange-groups", "secp256r1,secp384r1"], &[], "secp256r1"),
        (&[], &["--key-exchange-groups", "secp384r1,X25519MLKEM768"], "secp384r1"),
    ] {
        let server = Running::serve(&scratch, "root", server);
        let (certificate, output) = (scratch.path("cert.pem"), scratch.path("output"));
        let url = server.url("file");
        let get = [&["get", "--ca", &certificate, "--json", "-o", &output, &url][..], client];
        let report: serde_json::Value =
            serde_json::from_slice(&succeed(&get.concat()).stdout).unwrap();
        assert_eq!(report["key_exchange_group"], expected);
        server.interrupt();
    }
}

/// Returns an ECHConfigList with one configuration, for X25519 and AES-128-GCM, whose private key
/// does not exist.
fn ech_config_list(public_name: &str) -> Vec<u8> {
    let mut contents = vec![7, 0, 0x20, 0, 32];
    contents.extend([9; 32]);
    contents.extend([0, 4, 0, 1, 0, 1, 0, public_name.len() as u8]);
    contents.extend(public_name.as_bytes());
    contents.extend([0, 0]);
    let length = contents.len() as u16;
    let mut list = (length + 4).to_be_bytes().to_vec();
    list.extend([0xfe, 0x0d]);
    list.extend(length.to_be_bytes());
    list.extend(contents);
    list
}

#[test]
fn ech_is_sent_and_its_rejection_is_explained() {
    let scratch = Scratch::new("ech");
    let content = scratch.fill("root/file", 10);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("output"));
    let url = server.url("file");
    let got = succeed(&["get", "--ca", &certificate, "--ech", "grease", &url]);
    assert_eq!(got.stdout, content);

    let list = ech_config_list("localhost");
    let file = scratch.path("list");
    fs::write(&file, &list).unwrap();
    let mut base64 = Command::new("base64");
    let text = String::from_utf8(base64.arg(&file).output().unwrap().stdout).unwrap();
    let pem = format!("-----BEGIN ECHCONFIG-----\n{text}-----END ECHCONFIG-----\n");
    let contents = [list.clone(), text.into_bytes(), pem.into_bytes()];
    for content in contents {
        fs::write(&file, content).unwrap();
        let line = fail(&["get", "--ca", &certificate, "--ech", &file, "-o", &output, &url]);
        assert_says(&line, &["ECH was rejected by localhost", "without --ech"]);
    }
    for content in [&list[1..], b"no list", b""] {
        fs::write(&file, content).unwrap();
        let line = fail(&["get", "--ca", &certificate, "--ech", &file, "-o", &output, &url]);
        assert_says(&line, &["ECH configuration list is malformed", "HTTPS record"]);
    }
    let line = fail(&["get", "--ca", &certificate, "--ech", "missing", "-o", &output, &url]);
    assert_says(&line, &["cannot read", "missing", "grease"]);
    server.interrupt();
}
