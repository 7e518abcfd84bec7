//! The faults that occur on the server's host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_wire::{TransportParameters, VarInt};
use rustix::io::Errno;
use rustix::process::Signal;

use super::faults::Fault;
use super::load::{self, Load};
use super::place::{LINK, Place};
use super::{Stage, Storm, tool};
use crate::attack::endpoint::{Endpoint, Sent, generous};
use crate::attack::http3;
use crate::attack::rows::slow::leave_gaps;
use crate::attack::scene::{LARGE, SMALL};
use crate::waiting::{pause, wait_until};

/// Returns all storms.
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
    vec![
        Storm {
            options: &["--quiet", "--hot-restart", "{folder}/restart"],
            lines: &["another process has replaced this one"],
            metrics: &["clearway_quic_datagrams_forwarded_out_total"],
            ..storm("restart", restart)
        },
        Storm {
            lines: &["interrupted: draining", "drained: all responses were complete"],
            metrics: &["clearway_events_total{event=\"drain_begun\"}"],
            ..storm("drain", drain)
        },
        Storm {
            lines: &["the peer has migrated to another address"],
            metrics: &["clearway_quic_migrations_total"],
            ..storm("migration", migrate)
        },
        Storm {
            place: Place::Faulty,
            tool: Some("cc"),
            lines: &["the system clock jumped forward", "the system clock jumped back"],
            metrics: &["clearway_events_total{event=\"clock_jumped\"}"],
            ..storm("clock", clock)
        },
        Storm {
            lines: &["Too many open files", "using reserved descriptors"],
            metrics: &["clearway_events_total{event=\"no_descriptor\"}"],
            ..storm("descriptors", descriptors)
        },
        Storm {
            place: Place::FullDisk,
            options: &["--qlog", "{folder}"],
            lines: &[
                "a qlog file ends early: No space left",
                "cannot write to standard output: No space left",
            ],
            metrics: &[
                "clearway_events_total{event=\"qlog_failed\"}",
                "clearway_output_lines_dropped_total{stream=\"stdout\"}",
            ],
            ..storm("full-disk", full_disk)
        },
        Storm {
            place: Place::SmallMemory,
            longest: Duration::from_secs(5),
            lines: &[
                "(--connection-memory)",
                "closed: memory is low",
                "and this connection uses the most",
            ],
            metrics: &[
                "clearway_events_total{event=\"connection_memory_level\"}",
                "clearway_memory_windows_limited_total",
                "clearway_memory_connections_closed_total",
            ],
            ..storm("memory", memory)
        },
        Storm {
            place: Place::Faulty,
            tool: Some("cc"),
            lines: &["the kernel rejects segmentation"],
            metrics: &["clearway_quic_segmentation_refused_total"],
            ..storm("gso-refused", no_gso)
        },
        Storm {
            place: Place::Link,
            tool: Some("nft"),
            longest: Duration::from_secs(5),
            lines: &["cannot send", "Operation not permitted"],
            metrics: &["clearway_quic_batches_failed_total"],
            ..storm("eperm", eperm)
        },
        Storm {
            place: Place::Link,
            tool: Some("tc"),
            longest: Duration::from_secs(8),
            lines: &["cannot send", "No buffer space available"],
            metrics: &["clearway_quic_batches_failed_total"],
            ..storm("enobufs", enobufs)
        },
        Storm {
            place: Place::Faulty,
            tool: Some("cc"),
            longest: Duration::from_secs(5),
            lines: &["cannot send", "Cannot allocate memory"],
            metrics: &["clearway_quic_batches_failed_total"],
            ..storm("enomem-send", |stage| fail(stage, Fault::Send(Errno::NOMEM)))
        },
        Storm {
            place: Place::Faulty,
            tool: Some("cc"),
            longest: Duration::from_secs(5),
            lines: &["the UDP socket cannot receive", "the UDP socket is receiving again"],
            metrics: &["clearway_quic_receive_failures_total"],
            ..storm("enomem-receive", |stage| fail(stage, Fault::Receive(Errno::NOMEM)))
        },
        Storm {
            longest: Duration::from_secs(5),
            lines: &["the program did not run for"],
            metrics: &["clearway_events_total{event=\"process_stalled\"}"],
            ..storm("stopped-process", stop)
        },
    ]
}

fn restart(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.start_next()
}

/// Sends SIGTERM to the server during a download that takes about a second.
fn drain(stage: &mut Stage<'_>) -> Result<(), String> {
    let settings = stage.site.settings(&Arc::new(Sent::default()));
    let download = Load::start(load::open(stage.address, &settings, 1, LARGE)?);
    pause(Duration::from_millis(50))?;
    stage.signal(Signal::TERM)?;
    let has_ended = wait_until(Duration::from_secs(20), || Ok(!stage.server.is_running()))?;
    let download = download.stop();
    stage.notes.push(format!("{} connections got GOAWAY", stage.load.record().gone));
    if download.requests != 1 {
        return Err(format!("the download did not complete: {:?}", download.failures));
    }
    match has_ended {
        true => Ok(()),
        false => Err("the server was still running 20 s after SIGTERM".to_owned()),
    }
}

fn migrate(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.load.migrate();
    Ok(())
}

/// Opens new connections that request a file for three seconds. None of their requests may fail.
fn others(stage: &mut Stage<'_>, count: u16, path: &'static str) -> Result<(), String> {
    let settings = stage.site.settings(&Arc::new(Sent::default()));
    let address = stage.address;
    let open = || load::open(address, &settings, count, path);
    let others = Load::start(stage.place.run(open)?);
    pause(Duration::from_secs(3))?;
    let seen = others.stop();
    stage.notes.push(format!("{count} new connections: {} responses", seen.requests));
    match seen.failures.first() {
        None if seen.requests > 0 => Ok(()),
        None => Err("new connections get no responses".to_owned()),
        Some(failure) => {
            Err(format!("new connections: {} failures: {failure}", seen.failures.len()))
        }
    }
}

/// The wall clock jumps forward by a day, back by two days, and then to its original value. Clients
/// have tickets from before each jump.
fn clock(stage: &mut Stage<'_>) -> Result<(), String> {
    const DAY: i64 = 86_400;
    others(stage, 20, SMALL)?;
    for ahead in [DAY, -DAY, 0] {
        stage.place.faults()?.begin(Fault::Clock(ahead))?;
        others(stage, 20, SMALL)?;
    }
    Ok(())
}

/// Keeps the server from opening any file descriptor for three seconds, while clients request a
/// file that is not open yet.
fn descriptors(stage: &mut Stage<'_>) -> Result<(), String> {
    let process = stage.server.id().to_string();
    let count = std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |all| all.count());
    let limit = format!("--nofile={count}:1024");
    tool("prlimit", &["--pid", &process, &limit])?;
    let seen = others(stage, 20, "/other.txt");
    tool("prlimit", &["--pid", &process, "--nofile=1024:1024"])?;
    seen
}

/// Opens new connections when no disk space is left for their traces and access log lines.
fn full_disk(stage: &mut Stage<'_>) -> Result<(), String> {
    let space = vec![b'x'; 128 << 20];
    // Fills the remaining space of the small file system.
    let _ = std::fs::write(stage.folder.join("filler"), space);
    others(stage, 50, "/other.txt")
}

/// Uses more memory than the cgroup has: 60 connections from other networks make the server buffer
/// 1 MiB of received data each, and 30 more request more than the available memory and acknowledge
/// nothing.
fn memory(stage: &mut Stage<'_>) -> Result<(), String> {
    let mut greedy = Vec::new();
    for number in 0..90_u8 {
        let mut settings = stage.site.settings(&Arc::new(Sent::default()));
        settings.parameters = TransportParameters {
            initial_max_stream_data_bidi_local: VarInt::from_u32(64 << 10),
            ..generous()
        };
        settings.local = IpAddr::from([127, 40 + number, 0, 1]);
        // A rejected connection does not have to be served.
        let limit = Duration::from_secs(1);
        let Ok(mut endpoint) = Endpoint::connect(stage.address, &settings, limit) else { continue };
        if number % 3 == 0 {
            http3::open(&mut endpoint, &[]);
            endpoint.acknowledges = false;
            for _ in 0..95 {
                http3::request(&mut endpoint, LARGE);
            }
            endpoint.pump(Duration::from_millis(20))?;
        } else {
            leave_gaps(&mut endpoint)?;
        }
        greedy.push(endpoint);
    }
    for _ in 0..30 {
        for endpoint in &mut greedy {
            endpoint.pump(Duration::from_millis(1))?;
        }
    }
    let closed = greedy.iter().filter(|endpoint| endpoint.closed.is_some()).count();
    stage.notes.push(format!("{} greedy connections, {closed} closed", greedy.len()));
    let peak = stage.place.peak_memory().unwrap_or_default() >> 20;
    stage.notes.push(format!("peak {peak} MiB"));
    Ok(())
}

/// Makes sends with segmentation offload fail with EIO, as the kernel does for an interface without
/// checksum offload. Responses of several datagrams need segmentation.
fn no_gso(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.place.faults()?.begin(Fault::Segmentation(Errno::IO))?;
    others(stage, 4, LARGE)
}

/// Causes a fault that lasts for two seconds.
fn fail(stage: &mut Stage<'_>, fault: Fault) -> Result<(), String> {
    stage.place.faults()?.begin(fault)?;
    pause(Duration::from_secs(2))?;
    stage.place.faults()?.end(fault)
}

/// Makes the firewall on the server's host drop outgoing datagrams, so that sendmsg returns EPERM.
fn eperm(stage: &mut Stage<'_>) -> Result<(), String> {
    let rules = "add table inet storm; add chain inet storm out { type filter hook output priority 0; }; \
                 add rule inet storm out meta l4proto udp drop";
    stage.place.at_server(|| tool("nft", &[rules]).map(drop))?;
    pause(Duration::from_secs(2))?;
    stage.place.at_server(|| tool("nft", &["delete table inet storm"]).map(drop))
}

/// Shrinks the queue of the server's link to almost nothing for two seconds.
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
