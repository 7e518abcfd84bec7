//! Tests `clearway serve` and `clearway get` against each other.

use std::fs;
use std::net::UdpSocket;

use crate::support::{Running, Scratch, clearway, succeed};

#[test]
fn files_are_downloaded_byte_for_byte() {
    let scratch = Scratch::new("byte-for-byte");
    let large = scratch.fill("root/large.bin", 3_000_000);
    let small = scratch.fill("root/sub dir/small.txt", 10);
    scratch.fill("root/empty", 0);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("large"));
    let url = server.url("large.bin");
    let arguments = ["get", "--ca", &certificate, "--json", "-o", &output, &url];
    let report = succeed(&arguments).stdout;
    assert_eq!(fs::read(&output).unwrap(), large);
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!((&report["bytes"], &report["status"]), (&3_000_000.into(), &200.into()));

    // Several downloads share one connection, and files are named after their URLs.
    let urls = [server.url("sub%20dir/small.txt"), server.url("empty")];
    let downloads = scratch.path("downloads");
    fs::create_dir(&downloads).unwrap();
    let mut command = clearway(&["get", "--ca", &certificate, "-O", &urls[0], &urls[1]]);
    assert!(command.current_dir(&downloads).status().unwrap().success());
    assert_eq!(fs::read(scratch.path("downloads/small.txt")).unwrap(), small);
    assert_eq!(fs::read(scratch.path("downloads/empty")).unwrap(), b"");

    let printed = succeed(&["get", "--ca", &certificate, &urls[0]]);
    assert_eq!(printed.stdout, small);
    assert_eq!(printed.stderr, b"");

    let log = server.interrupt();
    assert_eq!(log.matches("GET \"/large.bin\" 200 3.0 MB").count(), 1, "{log}");
    assert_eq!(log.lines().count(), 4, "{log}");
}

/// Over a slow path, buffered data takes longer to arrive than the timeout for a client that
/// accepts no data.
#[test]
fn a_client_on_a_slow_path_is_not_taken_for_one_that_accepts_nothing() {
    let scratch = Scratch::new("slow-path");
    let content = scratch.fill("root/file", 400_000);
    for more in [&[][..], &["--http09"]] {
        let server =
            Running::serve(&scratch, "root", &[&["--send-timeout", "500ms"], more].concat());
        let link = Running::link(&server.address, &["--rate", "1mbit", "--delay", "10ms"]);
        let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
        let get = ["get", "--connect", &link.address, "--ca", &certificate, "-o", &output];
        let url = server.url("file");
        succeed(&[&get[..], more, &[&url]].concat());
        assert_eq!(fs::read(&output).unwrap(), content);
    }
}

#[test]
fn http09_with_retry() {
    let scratch = Scratch::new("http09");
    let content = scratch.fill("root/file", 500_000);
    let server = Running::serve(&scratch, "root", &["--http09", "--retry"]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    succeed(&["get", "--http09", "--ca", &certificate, "-o", &output, &url]);
    assert_eq!(fs::read(&output).unwrap(), content);
    let missing = server.url("missing");
    crate::support::fail(&["get", "--http09", "--ca", &certificate, "-o", &output, &missing]);
    assert!(server.interrupt().contains("GET \"/file\" 200"));
}

/// A server that was restarted with the same key file validates a client's address by its token,
/// and a server with another file sends it a Retry. The second line of the file is the previous
/// key.
#[test]
fn tokens_outlive_a_restart_with_the_same_keys() {
    let scratch = Scratch::new("tokens");
    let content = scratch.fill("root/file", 10_000);
    let (keys, sessions) = (scratch.path("keys"), scratch.path("sessions"));
    let (first, second) = ("17".repeat(32), "2a".repeat(32));
    let both = format!("{second}\n{first}\n");
    for (run, (secrets, is_retried)) in
        [(&first, true), (&first, false), (&both, false), (&second, false), (&first, true)]
            .into_iter()
            .enumerate()
    {
        fs::write(&keys, secrets).unwrap();
        let server = Running::serve(&scratch, "root", &["--retry", "--ticket-keys", &keys]);
        let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
        let (logs, url) = (scratch.path(&format!("logs-{run}")), server.url("file"));
        let remember = ["--sessions", &sessions, "--qlog", &logs, "-o", &output, &url];
        succeed(&[&["get", "--ca", &certificate][..], &remember].concat());
        assert_eq!(fs::read(&output).unwrap(), content);
        server.interrupt();
        let log = fs::read_dir(&logs).unwrap().next().unwrap().unwrap();
        let log = fs::read_to_string(log.path()).unwrap();
        // The server's transport parameters show whether there was a Retry (RFC 9000 §7.3).
        assert_eq!(log.contains("retry_source_connection_id"), is_retried, "run {run}");
    }
}

/// With `--resume`, `get` downloads the first URL on one connection and the others on another one.
/// The key log has a line for each.
#[test]
fn connections_can_be_resumed_and_cipher_suites_chosen() {
    let scratch = Scratch::new("resume");
    let names = ["a", "b", "c"];
    let contents = names.map(|name| scratch.fill(&format!("root/{name}"), 5000));
    let server = Running::serve(&scratch, "root", &["--key-update-after", "5"]);
    let (certificate, keys) = (scratch.path("cert.pem"), scratch.path("keys"));
    let mut command =
        clearway(&["get", "--ca", &certificate, "--resume", "--key-update-after", "5"]);
    command.args(["--cipher-suites", "TLS_CHACHA20_POLY1305_SHA256"]).env("SSLKEYLOGFILE", &keys);
    let downloads = scratch.path("downloads");
    fs::create_dir(&downloads).unwrap();
    command.current_dir(&downloads).arg("-O").args(names.map(|name| server.url(name)));
    assert!(command.status().unwrap().success());
    for (name, content) in names.iter().zip(contents) {
        assert_eq!(fs::read(scratch.path(&format!("downloads/{name}"))).unwrap(), content);
    }
    let keys = fs::read_to_string(&keys).unwrap();
    assert_eq!(keys.matches("CLIENT_TRAFFIC_SECRET_0").count(), 2, "{keys}");
    server.interrupt();
    let wrong =
        clearway(&["get", "--cipher-suites", "RC4", "https://localhost/"]).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("TLS_AES_128_GCM_SHA256"), "{wrong:?}");
}

/// A missing sessions file is created, and an invalid one is reported and replaced.
#[test]
fn sessions_that_cannot_be_read_are_reported() {
    let scratch = Scratch::new("sessions-unread");
    let content = scratch.fill("root/file", 100);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, sessions) = (scratch.path("cert.pem"), scratch.path("sessions"));
    let url = server.url("file");
    for (before, expected) in [
        (None, None),
        (Some(&b"\xff\xfe"[..]), Some("not a session file")),
        (Some(b"clearway sessions 1\nend\n"), Some("from another version")),
        (Some(b"clearway sessions 2\n"), Some("the file is truncated")),
    ] {
        match before {
            Some(bytes) => fs::write(&sessions, bytes).unwrap(),
            None => assert!(!fs::exists(&sessions).unwrap()),
        }
        for expected in [expected, None] {
            let get = ["get", "--ca", &certificate, "--sessions", &sessions, &url];
            let output = succeed(&get);
            assert_eq!(output.stdout, content);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(errors.contains("ignoring the sessions"), expected.is_some(), "{errors}");
            assert!(expected.is_none_or(|why| errors.contains(why)), "{errors}");
        }
    }
    server.interrupt();
}

/// The connection for the second URL resumes the session of the first, so that it can send early
/// data.
#[test]
fn a_resumed_connection_sends_early_data() {
    let scratch = Scratch::new("resume-early");
    scratch.fill("root/a", 5000);
    scratch.fill("root/b", 5000);
    let server = Running::serve(&scratch, "root", &[]);
    let certificate = scratch.path("cert.pem");
    for _ in 0..5 {
        let mut command = clearway(&["get", "--ca", &certificate, "--resume", "--early-data"]);
        command.args(["--verbose", "-O", &server.url("a"), &server.url("b")]);
        let output = command.current_dir(scratch.path("")).output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{report}");
        let lines: Vec<_> = report.lines().filter(|line| line.contains("early data")).collect();
        assert_eq!(lines.len(), 2, "{report}");
        assert!(lines[0].ends_with(": no early data was accepted"), "{report}");
        assert!(lines[1].ends_with(": early data was accepted"), "{report}");
    }
    server.interrupt();
}

#[test]
fn traces_and_keys_are_written_where_the_user_wants_them() {
    let scratch = Scratch::new("traces");
    scratch.fill("root/file", 1000);
    let server_logs = scratch.path("server");
    let server = Running::serve(&scratch, "root", &["--qlog", &server_logs]);
    let certificate = scratch.path("cert.pem");
    let (url, output) = (server.url("file"), scratch.path("file"));
    let mut command = clearway(&["get", "--ca", &certificate, "-o", &output, &url]);
    command.env("QLOGDIR", scratch.path("client")).env("SSLKEYLOGFILE", scratch.path("keys"));
    assert!(command.status().unwrap().success());
    assert!(fs::read_to_string(scratch.path("keys")).unwrap().contains("CLIENT_TRAFFIC_SECRET_0"));
    server.interrupt();
    let name = |folder: &str| {
        let entry = fs::read_dir(scratch.path(folder)).unwrap().next().unwrap().unwrap();
        assert!(fs::read(entry.path()).unwrap().starts_with(b"\x1e{"));
        entry.file_name().into_string().unwrap()
    };
    let (client, server) = (name("client"), name("server"));
    assert_eq!(client.strip_suffix("_client.sqlog"), server.strip_suffix("_server.sqlog"));
}

/// The version is 1 by default. Otherwise, it is the client's initial version, unless the server
/// does not support it or prefers the other one.
#[test]
fn both_versions_of_quic_are_spoken() {
    const VERSIONS: [&str; 2] = ["00000001", "6b3343cf"];
    for (client, server, expected) in [
        (&[][..], &[][..], 1),
        (&["--quic-version", "2"], &[], 2),
        (&[], &["--quic-versions", "2,1"], 2),
        (&[], &["--quic-versions", "2"], 2),
        (&["--quic-version", "2"], &["--quic-versions", "1"], 1),
        (&["--quic-versions", "1"], &["--quic-versions", "2,1"], 1),
        (&["--quic-versions", "2"], &[], 2),
    ] {
        let scratch = Scratch::new("versions");
        let content = scratch.fill("root/file", 100_000);
        let logs = scratch.path("logs");
        let server = Running::serve(&scratch, "root", server);
        let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
        let url = server.url("file");
        let mut arguments = vec!["get", "--ca", &certificate, "--qlog", &logs, "-o", &output];
        arguments.extend(client);
        arguments.push(&url);
        succeed(&arguments);
        assert_eq!(fs::read(&output).unwrap(), content);
        let log = fs::read_dir(&logs).unwrap().next().unwrap().unwrap();
        let log = fs::read_to_string(log.path()).unwrap();
        let chosen = log.rsplit("\"chosen_version\":\"").next().unwrap();
        assert!(chosen.starts_with(VERSIONS[expected - 1]), "{client:?} {:.8}", chosen);
    }
}

#[test]
fn a_client_begins_in_a_version_that_it_speaks() {
    let versions = ["--quic-versions", "2", "--quic-version", "1"];
    let line = crate::support::fail(&[&["get"][..], &versions, &["https://localhost/"]].concat());
    assert!(line.contains("first_version"), "{line}");
}

#[test]
fn garbage_does_not_disturb_a_server() {
    let scratch = Scratch::new("garbage");
    let content = scratch.fill("root/file", 1000);
    let server = Running::serve(&scratch, "root", &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let noise = scratch.fill("noise", 200_000);
    for (number, datagram) in noise.chunks(997).enumerate() {
        let mut datagram = datagram.to_vec();
        // Every second datagram looks like an Initial packet of version 1.
        if number % 2 == 0 {
            datagram[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
        }
        socket.send_to(&datagram, &server.address).unwrap();
    }
    let certificate = scratch.path("cert.pem");
    let printed = succeed(&["get", "--ca", &certificate, &server.url("file")]);
    assert_eq!(printed.stdout, content);
    server.interrupt();
}
