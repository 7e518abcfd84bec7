//! What to do about each cause, with names and numbers.

use crate::{Action, Cause, Evidence, Queue, Stage, Starvation};

/// What to do, the best first.
pub(crate) fn actions(stage: Stage, cause: &Cause, evidence: &[Evidence]) -> Vec<Action> {
    match cause {
        Cause::Rate(queue) => rate(queue),
        Cause::Burst(queue) => burst(queue),
        Cause::Starved(queue, starvation) => starved(queue, starvation),
        Cause::Overflow(queue) => vec![only(format!(
            "Watch {} for longer and with more rights: whether the rate, bursts or a reader that is kept from running makes it \
             overflow is not known, and each needs something else.",
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

/// Causes of which a sentence says all.
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
            "Empty the receive ring of this socket of AF_XDP faster, and give frames back to its fill ring before that is empty. \
             Larger rings only help against bursts.",
            "ss --xdp --extended --processes",
        ),
        Cause::BacklogFull => with(
            "Spread received packets over more cores (queues of the device, RPS): a core gets more than it processes. \
             A longer backlog (net.core.netdev_max_backlog) only helps against bursts.",
            "cat /proc/net/softnet_stat",
        ),
        Cause::IpHeader => with(
            "Find who sends these packets: their header, version or address is not one that this host accepts.",
            "nstat -az 'IpIn*'",
        ),
        Cause::ReversePathFilter => with(
            "Compare the routes with the device at which the packets arrive: the way back to their source leads through another \
             device. Mend the routes, or set rp_filter to 2 for this device if the asymmetry is meant.",
            "sysctl -a --pattern 'rp_filter'",
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
            "Find out who sends to a port that nobody listens on: a server that is not running, another port or address, or a \
             client that does not know that the server ended.",
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
            "Find the sockets whose queues hold the memory of all (the slow readers), before the limit net.ipv4.udp_mem is \
             raised.",
            "ss -uamn",
        ),
        Cause::TruncatedReads => only(
            "Read with buffers of 65,535 bytes where UDP_GRO is on: what does not fit is lost, and no counter of the kernel \
             moves.",
        ),
        Cause::ApplicationQueue => only(
            "Look at what empties this queue of the application: it takes less than it is given.",
        ),
        Cause::SendBuffer => only(
            "Send no faster than the device takes: pace, and wait until the socket is writable when a send is refused. A larger \
             send buffer only delays that.",
        ),
        Cause::PathMtu => with(
            "Send smaller datagrams to these destinations, and let ICMP's messages through: a path takes less than was sent.",
            "ip route show cache",
        ),
        Cause::NoRoute => with("Add a route to the destination.", "ip route get DESTINATION"),
        Cause::QdiscFull => with(
            "Send no faster than the device takes (pacing), or see whether the limit of the queueing discipline is meant.",
            "tc -s qdisc show",
        ),
        Cause::DeviceSend => with(
            "Look at the device's and driver's counters for sending, and at the other end of a virtual device.",
            format!("ip -s -s link show {device}"),
        ),
        _ => with(
            format!(
                "Find out what the counters of {} count here; more rights show the kernel's reason.",
                stage.title()
            ),
            "clearway doctor --watch",
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
            "Make {reader} faster or give it help: {most}{arrival:.0} datagrams arrive each second and it takes \
             {most}{drain:.0}, {least}{:.2} for each that it takes. Cheaper work for each datagram, reads in batches (recvmmsg, UDP_GRO), or more threads with \
             sockets of their own (SO_REUSEPORT).",
            arrival / drain
        ),
        (Some(arrival), Some(_)) => format!(
            "Find out what {reader} waits for: {arrival:.0} datagrams arrive each second and it reads none."
        ),
        _ => format!(
            "Make {reader} faster or give it help: more datagrams arrive than it takes, and its queue is never empty. Cheaper \
             work for each datagram, reads in batches (recvmmsg, UDP_GRO), or more threads with sockets of their own \
             (SO_REUSEPORT)."
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

/// Why a larger buffer does not help, in seconds.
fn lasts(queue: &Queue) -> Option<String> {
    const LARGE: f64 = 25e6;
    let (seconds, buffer) = (queue.buffer_seconds?, queue.buffer.filter(|size| *size > 0)?);
    let of_large = seconds * LARGE / buffer as f64;
    Some(format!(
        "Leave the buffer as it is: at these rates one of {buffer} bytes is full after {}, one of 25 MB after {}, and then as \
         many are lost as now.",
        duration(seconds),
        duration(of_large)
    ))
}

/// Seconds in a unit that suits them.
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
        "Pace the senders if they are yours: {local} is emptied fast enough on average, and bursts are larger than its buffer."
    ));
    let Some(size) = queue.sufficient_buffer else { return vec![pace] };
    let charged = match queue.charge {
        Some(charge) => format!("each datagram is charged with {charge:.0} bytes"),
        None => {
            "what a datagram is charged with was not measured, so this is for the most it may be"
                .to_owned()
        }
    };
    let enlarge = with(
        format!(
            "Give {local} a receive buffer of {size} bytes (SO_RCVBUF; the kernel doubles it): that would have held the bursts \
             that were seen ({charged}). The limit net.core.rmem_max has to permit it."
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
                "Continue {reader}: it was stopped (SIGSTOP, a debugger), and nobody emptied its socket."
            ),
            format!("kill -CONT {id}"),
        ),
        Starvation::CpuPressure(part) => with(
            format!(
                "Give {reader} a core: it was ready to run and waited for {:.0} % of the time in which datagrams were lost. Pin \
                 it and keep others off that core, raise its priority, or move the others.",
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
