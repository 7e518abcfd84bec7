//! What happens to the server's host.

use std::time::Duration;

use rustix::process::Signal;

use super::load::{self, Load};
use super::place::{LINK, Place};
use super::{Stage, Storm, tool};
use crate::attack::endpoint::{Sent, generous};
use crate::attack::scene::LARGE;
use crate::waiting::{pause, wait_until};

/// Storms that cannot be made here, and why.
pub(super) const NOT_MADE: [(&str, &str); 2] = [
    (
        "clock",
        "a time namespace shifts monotonic clocks only, and only before a process starts; the host's clock is not ours to set. \
         Tests of the transport let the wall clock of tickets and tokens jump",
    ),
    (
        "enomem",
        "a kernel without fault injection does not return ENOMEM on demand; tests of crates/io put it in the place of calls",
    ),
];

/// All storms.
pub(super) fn all() -> Vec<Storm> {
    let storm = |name, event: fn(&mut Stage<'_>) -> Result<(), String>| Storm {
        name,
        place: Place::Here,
        tool: None,
        options: &["--quiet"],
        event,
        failures: 0,
        longest: Duration::from_secs(2),
        lines: &[],
        metrics: &[],
    };
    let full_disk = Storm {
        place: Place::FullDisk,
        options: &["--qlog", "{folder}"],
        lines: &["No space left", "no space", "ENOSPC"],
        metrics: &["clearway_qlog", "clearway_output_lines_dropped"],
        ..storm("full-disk", full_disk)
    };
    vec![
        Storm {
            options: &["--quiet", "--hot-restart", "{folder}/restart"],
            lines: &["replaced", "replaces", "another process"],
            metrics: &["clearway_quic_datagrams_forwarded"],
            ..storm("restart", restart)
        },
        Storm {
            lines: &["interrupt", "shutting down"],
            metrics: &["clearway_draining"],
            ..storm("drain", drain)
        },
        Storm {
            metrics: &["clearway_quic_migrations", "clearway_quic_path"],
            ..storm("migration", migrate)
        },
        Storm {
            lines: &["Too many open files", "descriptors"],
            metrics: &["clearway_http3_responses_total{class=\"5xx\"}", "clearway_descriptors"],
            ..storm("descriptors", descriptors)
        },
        full_disk,
        Storm {
            place: Place::SmallMemory,
            longest: Duration::from_secs(5),
            lines: &["memory"],
            metrics: &[
                "clearway_http3_responses_total{class=\"5xx\"}",
                "clearway_memory",
                "clearway_quic_memory",
            ],
            ..storm("memory", memory)
        },
        Storm { place: Place::Link, tool: Some("ethtool"), ..storm("gso-refused", no_gso) },
        Storm {
            place: Place::Link,
            tool: Some("nft"),
            longest: Duration::from_secs(5),
            lines: &["Operation not permitted", "permitted"],
            metrics: &["clearway_quic_batches_failed"],
            ..storm("eperm", eperm)
        },
        Storm {
            place: Place::Link,
            tool: Some("tc"),
            longest: Duration::from_secs(8),
            metrics: &[
                "clearway_quic_send_blocked",
                "clearway_quic_batches_failed",
                "clearway_quic_packets_lost",
            ],
            ..storm("enobufs", enobufs)
        },
        Storm {
            longest: Duration::from_secs(5),
            lines: &["was stopped", "did not run"],
            metrics: &["clearway_quic_stalls", "clearway_quic_turns_late"],
            ..storm("stopped-process", stop)
        },
    ]
}

fn restart(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.start_next()
}

fn drain(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.signal(Signal::TERM)?;
    let has_ended = wait_until(Duration::from_secs(20), || Ok(!stage.server.is_running()))?;
    stage.notes.push(format!("{} connections got GOAWAY", stage.load.record().gone));
    match has_ended {
        true => Ok(()),
        false => Err("the server has not ended 20 s after SIGTERM".to_owned()),
    }
}

fn migrate(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.load.migrate();
    Ok(())
}

/// The server may open nothing more for three seconds; meanwhile clients request a file that is not open yet.
fn descriptors(stage: &mut Stage<'_>) -> Result<(), String> {
    let process = stage.server.id().to_string();
    let count = std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |all| all.count());
    let limit = format!("--nofile={count}:1024");
    tool("prlimit", &["--pid", &process, &limit])?;
    let settings = stage.site.settings(&std::sync::Arc::new(Sent::default()));
    let address = stage.address;
    let others = Load::start(load::open(address, &settings, 20, "/other.txt")?);
    pause(Duration::from_secs(3))?;
    let seen = others.stop();
    stage.notes.push(format!(
        "others: {} answers, {} failures",
        seen.requests,
        seen.failures.len()
    ));
    tool("prlimit", &["--pid", &process, "--nofile=1024:1024"]).map(drop)
}

/// New connections whose traces have no room.
fn full_disk(stage: &mut Stage<'_>) -> Result<(), String> {
    let space = vec![b'x'; 1 << 20];
    // The rest of the small file system.
    let _ = std::fs::write(stage.folder.join("filler"), space);
    let settings = stage.site.settings(&std::sync::Arc::new(Sent::default()));
    let others = Load::start(load::open(stage.address, &settings, 50, "/other.txt")?);
    pause(Duration::from_secs(3))?;
    let seen = others.stop();
    match seen.failures.first() {
        None => Ok(()),
        Some(failure) => Err(format!("new connections: {failure}")),
    }
}

/// 30 connections ask for more than the cgroup has, and read nothing.
fn memory(stage: &mut Stage<'_>) -> Result<(), String> {
    use clearway_wire::VarInt;
    let mut settings = stage.site.settings(&std::sync::Arc::new(Sent::default()));
    settings.parameters = clearway_wire::TransportParameters {
        initial_max_stream_data_bidi_local: VarInt::from_u32(1),
        ..generous()
    };
    let mut greedy = Vec::new();
    for number in 0..30_u8 {
        settings.local = std::net::IpAddr::from([127, 40 + number, 0, 1]);
        let address = stage.address;
        let limit = Duration::from_secs(3);
        let Ok(mut endpoint) =
            crate::attack::endpoint::Endpoint::connect(address, &settings, limit)
        else {
            continue;
        };
        crate::attack::http3::open(&mut endpoint, &[]);
        for _ in 0..95 {
            crate::attack::http3::request(&mut endpoint, LARGE);
        }
        endpoint.pump(Duration::from_millis(50))?;
        greedy.push(endpoint);
    }
    for _ in 0..30 {
        for endpoint in &mut greedy {
            endpoint.pump(Duration::from_millis(3))?;
        }
    }
    Ok(())
}

/// Without checksum offload the kernel returns EIO to a send with segmentation.
fn no_gso(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.place.at_server(|| tool("ethtool", &["-K", LINK, "tx", "off"]).map(drop))
}

/// The firewall of the server's host drops what it sends: sendmsg returns EPERM.
fn eperm(stage: &mut Stage<'_>) -> Result<(), String> {
    let rules = "add table inet storm; add chain inet storm out { type filter hook output priority 0; }; \
                 add rule inet storm out meta l4proto udp drop";
    stage.place.at_server(|| tool("nft", &[rules]).map(drop))?;
    pause(Duration::from_secs(2))?;
    stage.place.at_server(|| tool("nft", &["delete table inet storm"]).map(drop))
}

/// The queue of the server's link takes next to nothing for two seconds.
fn enobufs(stage: &mut Stage<'_>) -> Result<(), String> {
    let queue = [
        "qdisc", "add", "dev", LINK, "root", "tbf", "rate", "200kbit", "burst", "4kb", "limit",
        "4kb",
    ];
    stage.place.at_server(|| tool("tc", &queue).map(drop))?;
    pause(Duration::from_secs(2))?;
    stage.place.at_server(|| tool("tc", &["qdisc", "del", "dev", LINK, "root"]).map(drop))
}

fn stop(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.signal(Signal::STOP)?;
    let slept = pause(Duration::from_secs(3));
    stage.signal(Signal::CONT)?;
    slept
}
