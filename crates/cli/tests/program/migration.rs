//! Tests `get --rebind-after` and `serve --preferred-address`.

use std::fs;

use crate::support::{Running, Scratch, clearway, fail, succeed};

/// Returns what the link has delivered to the client: `delivered` or `delivered_bytes`.
fn to_client(link: Running, what: &str) -> u64 {
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    counters["to_client"][what].as_u64().unwrap_or_else(|| panic!("{counters}"))
}

#[test]
fn a_download_moves_to_another_port() {
    let scratch = Scratch::new("rebind-after");
    let content = scratch.fill("root/file", 1_500_000);
    for (more, is_quiet) in [(&[][..], false), (&["--http09"], false), (&[], true)] {
        let server = Running::serve(&scratch, "root", more);
        let link = Running::link(&server.address, &["--delay=5ms", "--to-client-rate=20mbit"]);
        let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
        let url = server.url("file");
        let get = ["get", "--rebind-after", "200ms", "--connect", &link.address, "-o", &output];
        let quiet: &[_] = if is_quiet { &["--quiet"] } else { &[] };
        let get = [&get[..], more, quiet, &["--ca", &certificate, &url]].concat();
        let printed = succeed(&get).stderr;
        assert_eq!(fs::read(&output).unwrap(), content);
        let printed = String::from_utf8(printed).unwrap();
        if is_quiet {
            assert_eq!(printed, "");
        } else {
            assert!(printed.contains("migrated to 127.0.0.1:"), "{printed}");
            assert!(printed.contains("after 200ms"), "{printed}");
        }
        // The server is stopped before the link, since the end of the connection may still be in
        // transit to it.
        server.interrupt();
        let passed = to_client(link, "delivered_bytes");
        assert!(passed > content.len() as u64, "{passed} bytes: the download went past the link");
    }
}

/// A client that connects through a link migrates to the server's preferred address: hardly any
/// data passes through the link.
#[test]
fn clients_move_to_the_preferred_address() {
    let scratch = Scratch::new("preferred-address");
    let content = scratch.fill("root/file", 3_000_000);
    let server = Running::serve(&scratch, "root", &["--preferred-address", "127.0.0.2:0"]);
    let link = Running::link(&server.address, &["--delay=5ms"]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    succeed(&["get", "--connect", &link.address, "--ca", &certificate, "-o", &output, &url]);
    assert_eq!(fs::read(&output).unwrap(), content);
    let passed = to_client(link, "delivered");
    assert!((3..300).contains(&passed), "{passed}");
    server.interrupt();
}

#[test]
fn wrong_addresses_and_times_are_explained() {
    let scratch = Scratch::new("wrong-migration");
    fs::create_dir_all(scratch.path("root")).unwrap();
    let root = scratch.path("root");
    for (addresses, expected) in [
        (&["127.0.0.2:0", "127.0.0.3:0"][..], "once for IPv4 and once for IPv6"),
        (&["[::1]:0", "[::2]:0"], "two preferred IPv6 addresses"),
        (&["0.0.0.0:4433"], "an address of this machine"),
        (&["224.0.0.1:4433"], "not the address of a single host"),
        (&["192.0.2.1:4433"], "UDP 192.0.2.1:4433"),
    ] {
        let mut arguments = vec!["serve", &root, "--listen", "127.0.0.1:0"];
        addresses.iter().for_each(|it| arguments.extend(["--preferred-address", *it]));
        let line = fail(&arguments);
        assert!(line.contains(expected), "{addresses:?}: {line}");
    }
    for (arguments, expected) in [
        (&["get", "--rebind-after", "0s", "https://localhost/file"][..], "longer than 0"),
        (&["get", "--rebind-after", "soon", "https://localhost/file"], "--rebind-after"),
        (&["serve", "--preferred-address", "example.org:443"], "expected an address and a port"),
    ] {
        let output = clearway(arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
}
