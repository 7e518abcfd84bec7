//! Tests hosts with several addresses, addresses with a zone, and unreachable addresses.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Running, Scratch, clearway, fail, succeed};

/// Timeout that is far below the 20 seconds after which a silent address is abandoned.
const SOON: Duration = Duration::from_secs(10);

/// Binds sockets that receive at the same port of ::1 without responding, if `localhost` resolves
/// to ::1 before `address`.
fn silent_twin(address: &str) -> Option<UdpSocket> {
    let address: SocketAddr = address.parse().unwrap();
    let of_localhost: Vec<_> = ("localhost", address.port()).to_socket_addrs().ok()?.collect();
    let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port()));
    let is_first = of_localhost.first() == Some(&v6) && of_localhost.contains(&address);
    UdpSocket::bind(v6).ok().filter(|_| is_first)
}

#[test]
fn a_silent_address_does_not_delay_a_download() {
    let scratch = Scratch::new("addresses");
    let content = scratch.fill("root/file", 10_000);
    let server = Running::serve(&scratch, "root", &[]);
    let Some(_silent) = silent_twin(&server.address) else {
        return eprintln!("skipped: localhost has one address here");
    };
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    for more in [&["--quiet"][..], &["--quiet", "--early-data"]] {
        let begun = Instant::now();
        let arguments = [&["get", "--ca", &certificate][..], more, &[&url]].concat();
        assert_eq!(succeed(&arguments).stdout, content);
        assert!(begun.elapsed() < SOON, "{more:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn every_address_that_failed_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let addresses: Vec<_> = ("localhost", port).to_socket_addrs().unwrap().collect();
    drop(taken);
    let url = format!("https://localhost:{port}/");
    // With `--insecure`, the warning about the missing verification would be a second line.
    let line = fail(&["get", "--quiet", &url]);
    for address in addresses {
        assert!(line.contains(&format!("({address})")), "{address}: {line}");
    }
    assert!(line.contains("over QUIC (UDP): unreachable"), "{line}");
}

/// Runs a shell script as root of a separate network namespace; `None` if that is not permitted
/// here.
fn isolated(script: &str) -> Option<Output> {
    let probe = ["--map-root-user", "--net", "ip", "link"];
    let is_permitted = Command::new("unshare").args(probe).output();
    if !is_permitted.is_ok_and(|probe| probe.status.success()) {
        eprintln!("skipped: no network namespaces here");
        return None;
    }
    let program = clearway(&[]).get_program().to_owned();
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--map-root-user", "--net", "sh", "-c", script]);
    Some(command.env("CLEARWAY", program).output().unwrap())
}

#[test]
fn link_local_addresses_have_a_zone() {
    let scratch = Scratch::new("zones");
    scratch.fill("root/file", 10_000);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let script = format!(
        "set -e; ip link set lo up; ip link add cwzone type veth peer name cwpeer
         ip link set cwpeer up; ip link set cwzone up
         ip -6 addr add fe80::77/64 dev cwzone nodad
         index=$(cat /sys/class/net/cwzone/ifindex 2>/dev/null || ip -o link show cwzone | cut -d: -f1)
         \"$CLEARWAY\" serve {root} --listen '[fe80::77%cwzone]:4433' --save-cert {certificate} >log &
         server=$!; trap 'kill $server' EXIT
         while ! grep -q listening log; do kill -0 $server; sleep 0.05; done
         for host in 'fe80::77%cwzone' 'fe80::77%25cwzone' \"fe80::77%$index\"; do
           \"$CLEARWAY\" get --quiet --insecure --timeout 10s \"https://[$host]:4433/file\" | wc -c
         done
         for zone in cwzone $index; do
           \"$CLEARWAY\" get --quiet --ca {certificate} --timeout 10s \\
             --connect \"[fe80::77%$zone]:4433\" https://localhost:4433/file | wc -c
         done
         cat log"
    );
    let script = format!("cd {}; {script}", scratch.path(""));
    let Some(output) = isolated(&script) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with(&"10000\n".repeat(5)), "{text}{errors}");
}

/// Makes `get` connect to port 443 of `address` on a host set up by `setup`. Returns its output.
fn get_on_a_host(setup: &str, address: &str) -> Option<String> {
    let script = format!(
        "set -e; ip link set lo up; {setup}
         \"$CLEARWAY\" get --quiet --insecure https://{address}/"
    );
    let output = isolated(&script)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{errors}");
    Some(errors)
}

/// Checks that a local error is not reported as a server that is down or silent.
#[test]
fn a_host_that_cannot_send_says_why() {
    let firewall = "nft add table ip clearway
        nft add chain ip clearway out '{ type filter hook output priority 0 ; }'
        nft add rule ip clearway out udp dport 443 drop";
    let small_mtu = "ip link add cwsmall mtu 1000 type veth peer name cwpeer mtu 1000
        ip addr add 192.0.2.2/24 dev cwsmall; ip link set cwpeer up; ip link set cwsmall up
        ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev cwsmall";
    let has_nft = Command::new("nft").arg("--version").output().is_ok();
    let cases = [
        (":", "192.0.2.1", "this host cannot send to 192.0.2.1:443: Network is unreachable"),
        (
            firewall,
            "127.0.0.1",
            "this host could not send to the peer before the timeout: a local rule",
        ),
        (small_mtu, "192.0.2.1", "the interface's MTU is too small for datagrams of 1200 bytes"),
    ];
    // Two of the cases take the whole handshake timeout.
    thread::scope(|scope| {
        for (setup, address, expected) in cases {
            if setup == firewall && !has_nft {
                eprintln!("skipped: there is no nft here");
                continue;
            }
            scope.spawn(move || {
                let Some(errors) = get_on_a_host(setup, address) else { return };
                assert!(errors.contains(expected) && errors.contains(address), "{errors}");
                for misleading in ["listening", "no response", "blocks UDP"] {
                    assert!(!errors.contains(misleading), "{errors}");
                }
            });
        }
    });
}

#[test]
fn options_of_curl_are_known_or_lead_to_ours() {
    let scratch = Scratch::new("curl-options");
    let content = scratch.fill("root/file", 1000);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    for options in [&["--cacert", &certificate, "--max-time", "20s"][..], &["-k"]] {
        let arguments = [&["get", "--quiet"][..], options, &[&url]].concat();
        assert_eq!(succeed(&arguments).stdout, content, "{options:?}");
    }
    for option in ["--resolve", "--connect-to"] {
        let output = clearway(&["get", option, "a:443:127.0.0.1", &url]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("--connect HOST:PORT"), "{errors}");
        assert!(!errors.contains("--resume"), "{errors}");
    }
}
