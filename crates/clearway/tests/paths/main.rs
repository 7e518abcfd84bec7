//! Tests of events on a client's path, over real sockets: the client's address is replaced, its
//! path fails and it migrates, or the path MTU falls, while the client downloads, uploads, does
//! both, or is idle.
//!
//! Server and client are processes in separate network namespaces, which the test creates and
//! removes. That needs root and the commands `ip`, `tc` and `nft`; without them the test prints a
//! message and ends. The processes are this program itself, running its ignored tests.

mod host;

use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clearway::rustls::pki_types::PrivatePkcs8KeyDer;

use clearway::{ClientConfig, Connection, Endpoint, PathEvent, ServerConfig};

use host::{Hosts, run_in};

const PROTOCOL: &str = "paths";
const PORT: u16 = 4433;
/// Number of bytes per transfer; takes a second on a path of 40 Mbit/s.
const SIZE: usize = 5_000_000;
/// Maximum time that a transfer may take after the event; without an event, it takes one second.
const BOUND: Duration = Duration::from_secs(10);

const TRAFFIC: [&str; 4] = ["download", "upload", "both", "idle"];

/// The event that occurs in the middle of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// The client's IPv4 or IPv6 address is replaced.
    Replaced { is_v6: bool },
    /// Packets from and to the client's address are dropped, and the client migrates to another
    /// one.
    DeadAndMigrate,
    /// The interfaces no longer accept datagrams of more than 1300 bytes.
    Mtu,
}

#[test]
fn a_connection_survives_what_happens_to_its_path() {
    let Some(hosts) = Hosts::new() else {
        return eprintln!("skipped: network namespaces need root, ip, tc and nft");
    };
    let server = run_in(hosts.server(), "server_process", &[]).spawn().unwrap();
    let _server = host::Ended(server);
    hosts.wait_for_port(PORT);
    let faults = [
        Fault::Replaced { is_v6: false },
        Fault::Replaced { is_v6: true },
        Fault::DeadAndMigrate,
        Fault::Mtu,
    ];
    let mut failures = Vec::new();
    for fault in faults {
        for traffic in TRAFFIC {
            hosts.reset();
            if let Err(why) = try_one(&hosts, fault, traffic) {
                failures.push(format!("{fault:?}, {traffic}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a client whose path suffers `fault` in the middle of its `traffic`.
fn try_one(hosts: &Hosts, fault: Fault, traffic: &str) -> Result<(), String> {
    let is_v6 = fault == Fault::Replaced { is_v6: true };
    let server = SocketAddr::new(hosts.server_ip(is_v6), PORT).to_string();
    let to = hosts.other_client_ip().to_string();
    let migrates = fault == Fault::DeadAndMigrate;
    let replaced = matches!(fault, Fault::Replaced { .. });
    let settings = [
        ("PATHS_SERVER", server.as_str()),
        ("PATHS_TRAFFIC", traffic),
        ("PATHS_MIGRATES", if migrates { to.as_str() } else { "" }),
        ("PATHS_REPLACED", if replaced { "yes" } else { "" }),
    ];
    let mut command = run_in(hosts.client(), "client_process", &settings);
    let client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut client = host::Ended(client);
    let output = client.0.stdout.take().unwrap();
    let mut lines = std::io::BufReader::new(output).lines();
    let mut wait_for = |what: &str| {
        let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(what));
        found.ok_or_else(|| format!("the client ended before it said {what:?}"))
    };
    wait_for("MOMENT")?;
    match fault {
        Fault::Replaced { is_v6 } => hosts.replace_client_ip(is_v6),
        Fault::DeadAndMigrate => hosts.drop_client_ip(),
        Fault::Mtu => hosts.set_mtu(1328),
    }
    client.0.stdin.take().unwrap().write_all(b"done\n").unwrap();
    let line = wait_for("RESULT")?;
    match line.split_once("RESULT ") {
        Some((_, "ok")) => Ok(()),
        _ => Err(line),
    }
}

/// Runs `work`, which must complete within 30 times [`BOUND`].
fn within<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(BOUND * 30, work).await.expect("too slow") })
}

/// A server for requests of 9 bytes: the first byte selects a download or an upload, and the others
/// are its size.
#[test]
#[ignore = "a part of the test of this program"]
fn server_process() {
    within(async {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let config = ServerConfig::new(vec![certified.cert.into()], key.into());
        let config = config.application_protocols([PROTOCOL]);
        let server = Endpoint::server(SocketAddr::new([0_u16; 8].into(), PORT), config).unwrap();
        while let Some(connecting) = server.accept().await {
            tokio::spawn(async move {
                let Ok(connection) = connecting.await else { return };
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    tokio::spawn(async move {
                        let mut request = [0; 9];
                        receive.read_exact(&mut request).await.ok()?;
                        let size = u64::from_be_bytes(request[1..].try_into().ok()?) as usize;
                        if request[0] == b'd' {
                            send.write_all(&vec![7; size]).await.ok()?;
                        }
                        while receive.read_chunk(1 << 20).await.ok()?.is_some() {}
                        send.finish().ok()
                    });
                }
            });
        }
    });
}

/// Runs the transfer given by PATHS_TRAFFIC, prints "MOMENT" in the middle, waits for a line, and
/// prints the result.
#[test]
#[ignore = "a part of the test of this program"]
fn client_process() {
    let Ok(server) = std::env::var("PATHS_SERVER") else { return };
    let traffic = std::env::var("PATHS_TRAFFIC").unwrap();
    let result = within(async {
        let server: SocketAddr = server.parse().unwrap();
        let any: IpAddr = if server.is_ipv6() { [0_u16; 8].into() } else { [0_u8; 4].into() };
        let endpoint = Endpoint::client(SocketAddr::new(any, 0)).unwrap();
        let config = ClientConfig::dangerous_without_certificate_verification()
            .application_protocols([PROTOCOL]);
        let connection = endpoint.connect_with(&config, server, "localhost").unwrap();
        let connection = connection.await.map_err(|error| error.to_string())?;
        tokio::select! {
            outcome = client(&connection, &traffic) => outcome,
            () = tokio::time::sleep(BOUND * 2) => Err("it takes too long".to_owned()),
        }
    });
    match result {
        Ok(()) => println!("\nRESULT ok"),
        Err(why) => println!("\nRESULT {why}"),
    }
}

async fn client(connection: &Connection, traffic: &str) -> Result<(), String> {
    let moved = Arc::new(AtomicUsize::new(0));
    let downloads = matches!(traffic, "download" | "both");
    let uploads = matches!(traffic, "upload" | "both");
    let mut work = Vec::new();
    for (kind, is_wanted) in [(b'd', downloads), (b'u', uploads)] {
        if is_wanted {
            work.push(tokio::spawn(transfer(connection.clone(), kind, SIZE, moved.clone())));
        }
    }
    if work.is_empty() {
        transfer(connection.clone(), b'd', 10_000, moved.clone()).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    while moved.load(Ordering::SeqCst) < SIZE / 4 && !work.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("\nMOMENT");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| error.to_string())?;
    let begin = Instant::now();
    // The transfers may have ended on a slow machine, and the client notices a fault when it sends.
    work.push(tokio::spawn(transfer(connection.clone(), b'd', 10_000, moved)));
    if let Ok(to) = std::env::var("PATHS_MIGRATES").unwrap_or_default().parse::<IpAddr>() {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let migrated = connection.migrate(SocketAddr::new(to, 0)).await;
        migrated.map_err(|error| error.to_string())?;
    }
    for transfer in work {
        transfer.await.map_err(|error| error.to_string())??;
    }
    if begin.elapsed() > BOUND {
        return Err(format!("it took {:?}", begin.elapsed()));
    }
    if std::env::var("PATHS_REPLACED").is_ok_and(|replaced| !replaced.is_empty()) {
        let event = connection.path_event().await.map_err(|error| error.to_string())?;
        let PathEvent::LocalAddressLost { .. } = event else { return Err(format!("{event:?}")) };
        let event = connection.path_event().await.map_err(|error| error.to_string())?;
        let PathEvent::LocalAddressChanged { .. } = event else { return Err(format!("{event:?}")) };
        if connection.statistics().send_failures == 0 {
            return Err("no failure is counted".to_owned());
        }
    }
    connection.close(0_u32.into(), b"");
    Ok(())
}

async fn transfer(
    connection: Connection,
    kind: u8,
    size: usize,
    moved: Arc<AtomicUsize>,
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (mut send, mut receive) = connection.open_bi().await.map_err(|error| text(&error))?;
    let mut request = vec![kind];
    request.extend((size as u64).to_be_bytes());
    send.write_all(&request).await.map_err(|error| text(&error))?;
    if kind == b'u' {
        let part = vec![7; 50_000];
        for _ in 0..size / part.len() {
            send.write_all(&part).await.map_err(|error| text(&error))?;
            moved.fetch_add(part.len(), Ordering::SeqCst);
        }
    }
    send.finish().map_err(|error| text(&error))?;
    let mut received = 0;
    while let Some(data) = receive.read_chunk(1 << 20).await.map_err(|error| text(&error))? {
        received += data.len();
        moved.fetch_add(data.len(), Ordering::SeqCst);
    }
    match kind == b'u' || received == size {
        true => Ok(()),
        false => Err(format!("{received} of {size} bytes")),
    }
}
