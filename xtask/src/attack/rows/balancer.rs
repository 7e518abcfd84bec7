//! Attacks on the load balancer.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use clearway_wire::preface::Preface;

use super::{Bound, Row, Target, USUAL};
use crate::attack::client::ask;
use crate::attack::endpoint::{Endpoint, Settings};
use crate::attack::http3;
use crate::attack::protection::random;
use crate::attack::scene::{SMALL, Scene, start};
use crate::attack::watch::Watch;
use crate::bounded::finish;
use crate::waiting::check_interrupt;

pub(super) fn rows() -> Vec<Row> {
    let row = |name, target, drive| Row { name, target, is_quick: false, bound: USUAL, drive };
    // Without the preface, each client needs its own server-side socket. Stray packets get at most
    // a quarter of the free ports.
    let ports = Bound { descriptors: 1_700, ..USUAL };
    const PLAIN: Target = Target::Balance { preface: false, serve: &[] };
    const PREFACED: Target = Target::Balance { preface: true, serve: &["--balancer", "127.0.0.1"] };
    vec![
        Row {
            bound: ports,
            ..row("balance-ports-short", PLAIN, |scene| ports_flood(scene, false))
        },
        Row { bound: ports, ..row("balance-ports-long", PLAIN, |scene| ports_flood(scene, true)) },
        Row {
            is_quick: true,
            ..row("balance-short-headers", PREFACED, |scene| many_addresses(scene, 20_000, false))
        },
        Row {
            bound: Bound { failures: usize::MAX, latency: Duration::MAX, is_silent: true, ..USUAL },
            ..row(
                "balance-spoofed-preface",
                Target::Balance { preface: false, serve: &["--balancer", "127.0.0.1"] },
                spoofed_preface,
            )
        },
        row("balance-preface-as-client", PREFACED, spoofed_preface),
        row("balance-itself", Target::Alone, itself),
        row("balance-bad-addresses", Target::Alone, bad_addresses),
    ]
}

fn datagram(is_long: bool) -> Vec<u8> {
    let mut bytes = vec![0; 31];
    random(&mut bytes);
    if is_long {
        bytes[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
    } else {
        bytes[0] = 0x43;
    }
    bytes
}

/// Sends small datagrams with made-up connection IDs, each from its own address and port.
fn many_addresses(scene: &mut Scene<'_>, count: u32, is_long: bool) -> Result<(), String> {
    for number in 0..count {
        let [_, _, high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, 10 + (number >> 14) as u8, high & 63, low.max(1));
        let socket = UdpSocket::bind((address, 0)).map_err(|error| error.to_string())?;
        let datagram = datagram(is_long);
        scene.counter.add(datagram.len());
        // If the send buffer is full, the datagram is dropped, as it could be on a path.
        let _ = socket.send_to(&datagram, scene.address);
        if number % 16 == 0 {
            std::thread::sleep(Duration::from_micros(500));
            check_interrupt()?;
        }
    }
    Ok(())
}

fn ports_flood(scene: &mut Scene<'_>, is_long: bool) -> Result<(), String> {
    let mut old = scene.attacker()?;
    ask(&mut old, SMALL)?;
    // More datagrams than all threads together have ports.
    many_addresses(scene, 9_000, is_long)?;
    let mut failed = 0;
    for _ in 0..10 {
        let settings = scene.site.settings(&scene.counter);
        let outcome = Endpoint::connect(scene.address, &settings, Duration::from_secs(1));
        failed += usize::from(outcome.is_err());
    }
    scene.check(failed == 0, || format!("{failed} of 10 new clients could not connect"));
    let outcome = ask(&mut old, SMALL);
    scene.check(outcome.is_ok(), || {
        format!("the request of a client that was already connected failed: {outcome:?}")
    });
    Ok(())
}

/// A client that sends a preface itself must not be able to spoof its address: its connection
/// attempt fails.
fn spoofed_preface(scene: &mut Scene<'_>) -> Result<(), String> {
    let client = "203.0.113.66:4242".parse().map_err(|_| "an address")?;
    let local = "198.51.100.1".parse().map_err(|_| "an address")?;
    let (octets, length) = Preface { client, local }.encode();
    let mut settings: Settings = scene.site.settings(&scene.counter);
    settings.prefix = octets[..length].to_vec();
    let Ok(mut spoofer) = Endpoint::connect(scene.address, &settings, Duration::from_secs(2))
    else {
        return Ok(());
    };
    http3::open(&mut spoofer, &[]);
    let outcome = ask(&mut spoofer, SMALL);
    scene.check(false, || {
        format!("a client's preface was accepted as its source address; its request: {outcome:?}")
    });
    Ok(())
}

fn backends(scene: &Scene<'_>, name: &str, address: &str) -> Result<String, String> {
    let text = format!(
        "[[server]]\nname = \"a\"\naddress = \"{address}\"\npreface = false\n[health]\noff = true\n"
    );
    let path = scene.folder.join(name);
    std::fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

/// A balancer that lists its own address as a server: datagrams must not loop.
fn itself(scene: &mut Scene<'_>) -> Result<(), String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let own = socket.local_addr().map_err(|error| error.to_string())?.to_string();
    let path = backends(scene, "self.toml", &own)?;
    drop(socket);
    let mut command = Command::new(&scene.site.program);
    command.args(["balance", "--listen", &own, "--backends", &path]);
    let Ok((server, address)) = start(command, &scene.log) else {
        scene.notes.push("rejected at startup".to_owned());
        return Ok(());
    };
    let watch = Watch::start(server.id(), &scene.folder);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    for _ in 0..10 {
        let datagram = datagram(false);
        scene.counter.add(datagram.len());
        let _ = socket.send_to(&datagram, address);
    }
    std::thread::sleep(Duration::from_secs(2));
    scene.measured = Some(watch.stop());
    let cpu = scene.measured.map_or(0.0, |cost| cost.cpu);
    scene.check(cpu < 0.5, || {
        format!(
            "ten datagrams cost {cpu:.1} s of CPU time: they are \
        forwarded in a loop"
        )
    });
    Ok(())
}

/// Addresses that a server cannot have are rejected.
fn bad_addresses(scene: &mut Scene<'_>) -> Result<(), String> {
    let bad = [
        "224.0.0.1:443",
        "255.255.255.255:443",
        "0.0.0.0:443",
        "[ff02::1]:443",
        "[::]:443",
        "127.0.0.1:0",
    ];
    for (number, address) in bad.into_iter().enumerate() {
        let path = backends(scene, &format!("{number}.toml"), address)?;
        let mut command = Command::new(&scene.site.program);
        command.args(["balance", "--check", "--backends", &path]);
        let is_accepted = finish(command, Duration::from_secs(5))?.is_success;
        scene.check(!is_accepted, || format!("{address} was accepted as a server"));
    }
    Ok(())
}
