//! Recommended actions for each cause, with names and numbers.

use crate::numbers::{count, whole};
use crate::{Action, Cause, Evidence, Queue, Stage, Starvation};

/// Returns the recommended actions, best first.
pub(crate) fn actions(stage: Stage, cause: &Cause, evidence: &[Evidence]) -> Vec<Action> {
    match cause {
        Cause::Rate(queue) => rate(queue),
        Cause::Burst(queue) => burst(queue),
        Cause::Starved(queue, starvation) => starved(queue, starvation),
        Cause::Overflow(queue) => vec![only(format!(
            "Watch {} for longer and with more rights: a reader that is too slow, bursts, and a reader that is kept from running \
             each need a different remedy, and which it is was not determined.",
            queue.local
        ))],
        Cause::HotSocket(queue) => vec![only(format!(
            "Spread the datagrams over the group: {} gets more of them than its reader takes, while others at the same port have \
             room. A few flows carry most of the traffic, or a program steers them (SO_ATTACH_REUSEPORT_EBPF): for QUIC, steer \
             by connection ID.",
            queue.local
        ))],
        other => vec![of_path(stage, other, evidence)],
    }
}

fn only(text: impl Into<String>) -> Action {
    Action { text: text.into(), command: None }
}

fn with(text: impl Into<String>, command: impl Into<String>) -> Action {
    Action { text: text.into(), command: Some(command.into()) }
}

/// Returns the action for causes that need only one sentence.
fn of_path(stage: Stage, cause: &Cause, evidence: &[Evidence]) -> Action {
    let device =
        evidence.iter().find_map(|it| it.counter.split_once(": ")).map_or("DEVICE", |it| it.0);
    match cause {
        Cause::DeviceReceive => with(
            "Look at the driver's counters: a ring that is too small for bursts, a core that does not empty it, frames that are \
             larger than the MTU or damaged.",
            format!("ethtool -S {device}"),
        ),
        Cause::Xdp => with(
            "Look at the XDP program of this device: it drops these packets, or sends them to a device or socket that does not \
             take them.",
            "ip -details link show",
        ),
        Cause::XdpSocket => with(
            "Empty the receive ring of this AF_XDP socket faster, and refill its fill ring before it is empty. \
             Larger rings only help against bursts.",
            "ss --xdp --extended --processes",
        ),
        Cause::BacklogFull => with(
            "Spread received packets over more cores (device queues, RPS): one core gets more than it can process. \
             A longer backlog (net.core.netdev_max_backlog) only helps against bursts.",
            "cat /proc/net/softnet_stat",
        ),
        Cause::IpHeader => with(
            "Find who sends these packets: their header, version or address is not one that this host accepts.",
            "nstat -az 'IpIn*'",
        ),
        Cause::ReversePathFilter => with(
            "Compare the routes with the device on which the packets arrive: the route back to their source leaves through \
             another device. Fix the routes, or set rp_filter to 2 for this device if the asymmetry is intended.",
            "sysctl -a --pattern 'rp_filter'",
        ),
        Cause::Undelivered => with(
            "Look at what arrives: multicast to groups that no program has joined is normal, many packets from invalid source \
             addresses are not.",
            "tcpdump -ni any multicast",
        ),
        Cause::Reassembly => only(
            "Send datagrams that need no fragments: a fragment was missing, and the whole datagram is lost with it.",
        ),
        Cause::Firewall => with(
            "Find the rule that drops them: its counter rises.",
            "nft list ruleset; iptables -L -v -n -x",
        ),
        Cause::ConntrackFull => with(
            "Exempt these flows from connection tracking (notrack), or give its table more room: new flows are dropped while it \
             is full.",
            "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        ),
        Cause::NoSocket => with(
            "If a server should be there, start it, or compare ports and addresses (`clearway doctor --port PORT` looks at one \
             port). If not, these are port scans or clients of a server that has ended: nothing is to be done.",
            "ss -uanp",
        ),
        Cause::BadChecksum => with(
            "Find out where datagrams are damaged or their checksums were not filled in: a device's or tunnel's checksum \
             offload, or a faulty path.",
            "ethtool -k DEVICE",
        ),
        Cause::BadLength => only(
            "Find out who sends datagrams whose UDP length does not fit the packet: a faulty sender or tunnel.",
        ),
        Cause::SocketFilter => with(
            "Look at the filter that the program attached to its socket (SO_ATTACH_FILTER, SO_ATTACH_BPF): it rejects these \
             datagrams.",
            "ss -uanp0 --bpf",
        ),
        Cause::UdpMemory => with(
            "Find the sockets whose queues hold most of the memory (slow readers) before raising the limit net.ipv4.udp_mem.",
            "ss -uamn",
        ),
        Cause::TruncatedReads => only(
            "Read with buffers of 65,535 bytes where UDP_GRO is on: what does not fit is lost, and no kernel counter shows it.",
        ),
        Cause::ApplicationQueue => only(
            "Look at the part of the application that empties this queue: it is slower than the part that fills it.",
        ),
        Cause::SendBuffer => only(
            "Send no faster than the device can: pace, and wait until the socket is writable after a refused send. A larger send \
             buffer only delays the refusals.",
        ),
        Cause::PathMtu => with(
            "Send smaller datagrams to these destinations, and let ICMP messages through: the path has a smaller MTU.",
            "ip route show cache",
        ),
        Cause::NoRoute => with("Add a route to the destination.", "ip route get DESTINATION"),
        Cause::QdiscFull => with(
            "Send no faster than the device can (pacing), or check whether the limit of the queueing discipline is intended.",
            "tc -s qdisc show",
        ),
        Cause::DeviceSend => with(
            "Look at the device's and driver's counters for sending, and at the other end of a virtual device.",
            format!("ip -s -s link show {device}"),
        ),
        _ => with(
            format!(
                "Look at the counters of the {} stage; as root, the doctor also shows the kernel's reasons for drops.",
                stage.title()
            ),
            "sudo clearway doctor",
        ),
    }
}

fn reader(queue: &Queue) -> String {
    match &queue.process {
        Some((id, name)) => format!("{name} (process {id})"),
        None => "the process that reads it".to_owned(),
    }
}

fn rate(queue: &Queue) -> Vec<Action> {
    let reader = reader(queue);
    let (most, least) = if queue.are_rates_exact { ("", "") } else { ("at most ", "at least ") };
    let first = match (queue.arrival_rate, queue.drain_rate) {
        (Some(arrival), Some(drain)) if drain >= 1.0 => format!(
            "Make {reader} faster: {most}{} datagrams arrive per second and it reads {most}{} ({least}{:.2} arrive for each \
             that it reads). Do less work for each datagram, read in batches (recvmmsg, UDP_GRO), or add threads with sockets \
             of their own (SO_REUSEPORT).",
            whole(arrival),
            whole(drain),
            arrival / drain
        ),
        (Some(arrival), Some(_)) => format!(
            "Find out what {reader} waits for: {} datagrams arrive per second and it reads none.",
            whole(arrival)
        ),
        _ => format!(
            "Make {reader} faster: more datagrams arrive than it reads, and its queue is never empty. Do less work for each \
             datagram, read in batches (recvmmsg, UDP_GRO), or add threads with sockets of their own (SO_REUSEPORT)."
        ),
    };
    let mut actions = vec![match &queue.process {
        Some((id, _)) => with(first, format!("perf top -p {id}")),
        None => only(first),
    }];
    if let Some(text) = lasts(queue) {
        actions.push(only(text));
    }
    actions
}

/// Explains why a larger buffer does not help, in seconds.
fn lasts(queue: &Queue) -> Option<String> {
    const LARGE: f64 = 25e6;
    let (seconds, buffer) = (queue.buffer_seconds?, queue.buffer.filter(|size| *size > 0)?);
    let of_large = seconds * LARGE / buffer as f64;
    Some(format!(
        "Do not enlarge the receive buffer: at these rates one of {} bytes is full after {}, one of 25 MB after {}, and from \
         then on as many datagrams are lost as now.",
        count(buffer),
        duration(seconds),
        duration(of_large)
    ))
}

/// Formats seconds in a suitable unit.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        it if it < 1e-3 => format!("{:.0} us", it * 1e6),
        it if it < 1.0 => format!("{:.1} ms", it * 1e3),
        it => format!("{it:.1} s"),
    }
}

fn burst(queue: &Queue) -> Vec<Action> {
    let local = &queue.local;
    let pace = only(format!(
        "Pace the senders if they are yours: {local} is emptied fast enough on average, but bursts are larger than its buffer."
    ));
    let Some(size) = queue.sufficient_buffer else { return vec![pace] };
    let charged = match queue.charge {
        Some(charge) => format!("the kernel charges {} bytes for each datagram", whole(charge)),
        None => {
            "the charge for a datagram was not measured, so this assumes the largest".to_owned()
        }
    };
    let enlarge = with(
        format!(
            "Give {local} a receive buffer of {} bytes (SO_RCVBUF; the kernel doubles it): that would have held the bursts \
             that were seen ({charged}). The limit net.core.rmem_max has to permit it.",
            count(size)
        ),
        "sysctl net.core.rmem_max",
    );
    vec![enlarge, pace]
}

fn starved(queue: &Queue, starvation: &Starvation) -> Vec<Action> {
    let reader = reader(queue);
    let id = queue.process.as_ref().map_or_else(|| "PID".to_owned(), |(id, _)| id.to_string());
    let action = match starvation {
        Starvation::Stopped => with(
            format!(
                "Continue {reader}: it was stopped (SIGSTOP, a debugger), so its socket was not read."
            ),
            format!("kill -CONT {id}"),
        ),
        Starvation::CpuPressure(part) => with(
            format!(
                "Give {reader} a core: it was ready to run and waited for {:.0} % of the time in which datagrams were lost. Pin \
                 it and keep other programs off that core, raise its priority, or move the others.",
                part * 100.0
            ),
            "cat /proc/pressure/cpu; top -H",
        ),
        Starvation::Throttled(part) => with(
            format!(
                "Raise the CPU limit of the cgroup of {reader}: it was throttled for {:.0} % of the time in which datagrams were \
                 lost.",
                part * 100.0
            ),
            format!("cat /proc/{id}/cgroup"),
        ),
        Starvation::Blocked => with(
            format!(
                "Find out what {reader} waits for in the kernel (a disk, a file system over the network), and move that to \
                 another thread."
            ),
            format!("cat /proc/{id}/stack"),
        ),
    };
    vec![action]
}
