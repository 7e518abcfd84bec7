//! Prints the packets in a cell's captures as text.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::capture::{Frames, KeyLog, Packet, Sender, Trace};
use crate::environment::is_server;

/// Prints both captures of a cell.
pub(crate) fn print(folder: &Path) -> io::Result<()> {
    let keys = KeyLog::read(&["client.keys", "server.keys"].map(|name| folder.join(name)));
    for side in ["client", "server"] {
        let trace = Trace::read(&folder.join(format!("{side}.pcap")), &keys, is_server)?;
        println!("at the {side}:");
        let start = trace.packets.first().map_or(Duration::ZERO, |packet| packet.at);
        for packet in &trace.packets {
            println!("{}", line(packet, start));
        }
    }
    Ok(())
}

fn line(packet: &Packet, start: Duration) -> String {
    let seconds = packet.at.saturating_sub(start).as_secs_f64();
    let arrow = if packet.sender == Sender::Client { "->" } else { "<-" };
    let client = match packet.sender {
        Sender::Client => packet.source,
        Sender::Server => packet.destination,
    };
    let mut line = format!("{seconds:10.6}  {client} {arrow} {:?}", packet.kind);
    // Writing to a string cannot fail.
    let _ = match &packet.opened {
        Some(opened) => write!(line, " {}{}", opened.number, frames(&opened.frames)),
        None => write!(line, " (not decrypted)"),
    };
    if !packet.source_id.is_empty() {
        line.push_str(", from ");
        for byte in &packet.source_id {
            let _ = write!(line, "{byte:02x}");
        }
    }
    let _ = write!(line, ", datagram {:?}, ECN {:02b}", packet.datagram, packet.ecn);
    if packet.opened.as_ref().is_some_and(|opened| opened.key_phase) {
        line.push_str(", key phase 1");
    }
    line
}

fn frames(frames: &Frames) -> String {
    let mut names = String::new();
    for (offset, data) in &frames.crypto {
        let _ = write!(names, ", CRYPTO {offset}+{}", data.len());
    }
    for (id, offset, length) in &frames.streams {
        let _ = write!(names, ", STREAM {id} {offset}+{length}");
    }
    for (largest, range) in &frames.acknowledged {
        let _ = write!(names, ", ACK {} to {largest}", largest.saturating_sub(*range));
    }
    for kind in &frames.others {
        let _ = write!(names, ", frame {kind:#04x}");
    }
    for (name, list) in
        [("PATH_CHALLENGE", &frames.path_challenges), ("PATH_RESPONSE", &frames.path_responses)]
    {
        for data in list {
            let _ = write!(names, ", {name} {:016x}", u64::from_be_bytes(*data));
        }
    }
    if frames.acknowledges_ecn {
        names.push_str(", ACK with ECN counts");
    }
    names
}
