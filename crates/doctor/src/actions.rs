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
            "Run the doctor again for longer and as root, to find the cause of the losses at {}: \
             a slow reader, bursts, and a reader that does not get the CPU each need a different \
             remedy.",
            queue.local
        ))],
        Cause::HotSocket(queue) => vec![only(format!(
            "Distribute the datagrams across the group: {} gets more than its reader can \
             read, while other sockets on the same port have room. Either a few flows carry most \
             of the traffic, or a program steers them (SO_ATTACH_REUSEPORT_EBPF): for QUIC, steer \
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
            "Check the driver's counters for the cause: a ring that is too small for bursts, a \
             core that does not empty it, or frames that are damaged or larger than the MTU.",
            format!("ethtool -S {device}"),
        ),
        Cause::Xdp => with(
            "Check the XDP program of this device: it drops these packets, or redirects them to a \
             device or socket that does not accept them.",
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
            "Find the sender of these packets: this host does not accept their header, version or \
             address.",
            "nstat -az 'IpIn*'",
        ),
        Cause::ReversePathFilter => with(
            "Compare the routes with the device on which the packets arrive: the route back to \
             their source uses another device. Fix the routes, or set rp_filter to 2 for this \
             device if the asymmetry is intended.",
            "sysctl -a --pattern 'rp_filter'",
        ),
        Cause::Undelivered => with(
            "Check what arrives: multicast to groups that no program has joined is normal; many \
             packets from invalid source addresses are not.",
            "tcpdump -ni any multicast",
        ),
        Cause::Reassembly => only(
            "Send datagrams that need not be fragmented: if a fragment is lost, so is the whole \
             datagram.",
        ),
        Cause::Firewall => with(
            "Find the rule that drops the packets: its counter increases.",
            "nft list ruleset; iptables -L -v -n -x",
        ),
        Cause::ConntrackFull => with(
            "Exempt these flows from connection tracking (notrack), or enlarge the tracking table: \
             new flows are dropped while it is full.",
            "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        ),
        Cause::NoSocket => with(
            "If a server should be running there, start it, or compare ports and addresses \
             (`clearway doctor --port PORT` examines one port). If not, these are port scans or \
             clients of a server that no longer runs: no action is needed.",
            "ss -uanp",
        ),
        Cause::BadChecksum => with(
            "Find out where datagrams are damaged or sent without checksums: checksum offload of \
             a device or tunnel, or a faulty path.",
            "ethtool -k DEVICE",
        ),
        Cause::BadLength => only(
            "Find the sender of datagrams whose UDP length does not match the packet: a faulty \
             sender or tunnel.",
        ),
        Cause::SocketFilter => with(
            "Check the filter that the program attached to its socket (SO_ATTACH_FILTER, \
             SO_ATTACH_BPF): it rejects these datagrams.",
            "ss -uanp0 --bpf",
        ),
        Cause::UdpMemory => with(
            "Before raising the limit net.ipv4.udp_mem, find the sockets whose queues hold most \
             of the memory: their readers are slow.",
            "ss -uamn",
        ),
        Cause::TruncatedReads => only(
            "Read into buffers of 65,535 bytes if UDP_GRO is on: data that does not fit is lost, \
             and no kernel counter shows it.",
        ),
        Cause::ApplicationQueue => only(
            "Check the part of the application that empties this queue: it is slower than the \
             part that fills it.",
        ),
        Cause::SendBuffer => only(
            "Do not send faster than the device can: pace, and wait until the socket is writable \
             after a failed send. A larger send buffer only delays the failures.",
        ),
        Cause::PathMtu => with(
            "Send smaller datagrams to these destinations, and do not block ICMP messages: the \
             path has a smaller MTU.",
            "ip route show cache",
        ),
        Cause::NoRoute => with("Add a route to the destination.", "ip route get DESTINATION"),
        Cause::QdiscFull => with(
            "Do not send faster than the device can (pacing), or check whether the limit of the \
             queueing discipline is intended.",
            "tc -s qdisc show",
        ),
        Cause::DeviceSend => with(
            "Check the device's and driver's transmit counters, and the other end if it is a \
             virtual device.",
            format!("ip -s -s link show {device}"),
        ),
        _ => with(
            format!(
                "Check the counters of the {} stage; as root, the doctor also shows the kernel's \
                 drop reasons.",
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
            "Make {reader} faster: {most}{} datagrams arrive per second and it reads {most}{} \
             ({least}{:.2} arrive for each one that it reads). Do less work per datagram, read in \
             batches (recvmmsg, UDP_GRO), or add threads with their own sockets (SO_REUSEPORT).",
            whole(arrival),
            whole(drain),
            arrival / drain
        ),
        (Some(arrival), Some(_)) => format!(
            "Find out what {reader} is waiting for: {} datagrams arrive per second and it does \
             not read any.",
            whole(arrival)
        ),
        _ => format!(
            "Make {reader} faster: more datagrams arrive than it reads, and its queue is never \
             empty. Do less work per datagram, read in batches (recvmmsg, UDP_GRO), or add \
             threads with their own sockets (SO_REUSEPORT)."
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

/// Returns a sentence that states how long the buffer lasts, and why a larger one does not help.
fn lasts(queue: &Queue) -> Option<String> {
    const LARGE: f64 = 25e6;
    let (seconds, buffer) = (queue.buffer_seconds?, queue.buffer.filter(|size| *size > 0)?);
    let of_large = seconds * LARGE / buffer as f64;
    Some(format!(
        "Do not enlarge the receive buffer: at these rates a buffer of {} bytes is full after {}, \
         one of 25 MB after {}, and from then on the losses continue as before.",
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
        "Pace the senders if you control them: {local} is read fast enough on average, but bursts \
         are larger than its buffer."
    ));
    let Some(size) = queue.sufficient_buffer else { return vec![pace] };
    let charged = match queue.charge {
        Some(charge) => format!("the kernel charges {} bytes for each datagram", whole(charge)),
        None => "the charge per datagram was not measured, so this assumes the maximum".to_owned(),
    };
    let enlarge = with(
        format!(
            "Give {local} a receive buffer of {} bytes (SO_RCVBUF; the kernel doubles it): that \
             would have held the observed bursts ({charged}). The limit net.core.rmem_max must \
             allow it.",
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
                "Resume {reader}: it was stopped (SIGSTOP, a debugger), so its socket was not read."
            ),
            format!("kill -CONT {id}"),
        ),
        Starvation::CpuPressure(part) => with(
            format!(
                "Give {reader} a core: it was runnable but waiting for a CPU for {:.0} % of the \
                 time in which datagrams were lost. Pin it and keep other programs off that core, \
                 raise its priority, or move the other programs.",
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
                "Find out what {reader} waits for in the kernel (a disk, a network file system), \
                 and move that to another thread."
            ),
            format!("cat /proc/{id}/stack"),
        ),
    };
    vec![action]
}
