//! `clearway link` between programs that know nothing of it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::support::{Running, Scratch, succeed};

#[test]
fn relays_and_counts() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let to = server.local_addr().unwrap().to_string();
    let link = Running::link(&to, &["--to-server-loss-list", "2,4", "--to-client-duplicate=100%"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for number in 1..=5 {
        client.send_to(&[number; 100], &link.address).unwrap();
    }
    let mut buffer = [0; 2000];
    for number in [1, 3, 5] {
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [number; 100]);
        server.send_to(&buffer[..length], from).unwrap();
        for _ in 0..2 {
            let length = client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], [number; 100]);
        }
    }
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    let (to_server, to_client) = (&counters["to_server"], &counters["to_client"]);
    assert_eq!((&to_server["received"], &to_server["lost_listed"]), (&5.into(), &2.into()));
    assert_eq!(to_server["delivered_bytes"], 300);
    assert_eq!((&to_client["duplicated"], &to_client["delivered"]), (&3.into(), &6.into()));
    assert_eq!(counters["clients"], 1);
}

#[test]
fn a_download_survives_a_bad_link_with_rebinding() {
    let scratch = Scratch::new("bad-link");
    let content = scratch.fill("root/file", 1_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let conditions = [
        "--delay=2ms",
        "--loss=1%",
        "--reorder=2%",
        "--reorder-by=3ms",
        "--duplicate=1%",
        "--corrupt=0.5%",
        "--to-client-rate=20mbit",
        "--to-client-queue=100",
        "--rebind-after=50ms",
        "--rebind-every=200ms",
        "--rebind-address",
    ];
    let link = Running::link(&server.address, &conditions);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    // A client that only receives has to speak up for the server to learn its new address.
    let patient = ["get", "--keep-alive", "30ms", "--connect", &link.address];
    succeed(&[&patient[..], &["--ca", &certificate, "-o", &output, &url]].concat());
    assert_eq!(std::fs::read(&output).unwrap(), content);
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    assert!(counters["to_client"]["duplicated"].as_u64().unwrap() > 0, "{counters}");
    server.interrupt();
}
