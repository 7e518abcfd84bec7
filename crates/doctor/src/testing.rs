//! Synthetic hosts for tests: a healthy host with traffic, and the changes that each fault causes.

use std::collections::BTreeMap;

use crate::{
    Conntrack, Counters, Device, Driver, Family, Memory, Missing, Paths, Process, Protocols, Qdisc,
    Reading, RunState, Snapshot, Socket, SocketKey, SoftnetCpu, Thread, XdpSocket,
};

pub(crate) const STEP: u64 = 100_000_000;
pub(crate) const KEY: SocketKey = SocketKey(77);
pub(crate) const LOCAL: &str = "0.0.0.0:4433";
pub(crate) const BUFFER: u64 = 212_992;
pub(crate) const CHARGE: u64 = 2_315;
/// The process and the thread that read the socket.
pub(crate) const READER: u32 = 500;

fn zeros(names: &[&str]) -> Counters {
    names.iter().map(|name| ((*name).to_owned(), 1_000)).collect()
}

pub(crate) fn bump(counters: &mut Counters, name: &str, by: u64) {
    let counter = counters.entry(name.to_owned()).or_default();
    *counter = counter.wrapping_add(by);
}

/// Returns a snapshot of a healthy host, as first seen by a fully privileged collector.
pub(crate) fn host() -> Snapshot {
    let device = Device {
        index: 2,
        kind: "veth".to_owned(),
        mtu: 1500,
        is_running: true,
        statistics: zeros(&[
            "rx_packets",
            "rx_bytes",
            "rx_errors",
            "rx_dropped",
            "rx_missed_errors",
            "multicast",
            "tx_packets",
            "tx_errors",
            "tx_dropped",
        ]),
        driver: Reading::Seen(Driver {
            statistics: zeros(&["rx_queue_0_drops", "rx_queue_0_xdp_drops"]),
        }),
        has_xdp: false,
        has_generic_xdp: false,
    };
    Snapshot {
        taken: 1_000_000_000,
        duration: 1_000_000,
        namespace: Reading::Seen(4_026_531_840),
        boot: Reading::Seen("a-boot".to_owned()),
        devices: Reading::Seen([("eth0".to_owned(), device)].into()),
        qdiscs: Reading::Seen(vec![qdisc()]),
        softnet: Reading::Seen(vec![
            SoftnetCpu { cpu: 0, ..SoftnetCpu::default() },
            SoftnetCpu { cpu: 1, ..SoftnetCpu::default() },
        ]),
        backlog: Reading::Missing(Missing::Namespace),
        protocols: Reading::Seen(protocols()),
        conntrack: Reading::Seen(Conntrack {
            count: 10,
            max: Some(1_000),
            counters: zeros(&["drop", "early_drop", "insert_failed"]),
        }),
        memory: Reading::Seen(Memory {
            used: 1,
            limits: Some([100, 200, 300]),
            receive_buffer_max: Some(BUFFER),
        }),
        sockets: Reading::Seen([(KEY, socket())].into()),
        xdp_sockets: Reading::Seen(BTreeMap::new()),
        processes: Reading::Seen([(READER, process())].into()),
        pressure: Reading::Missing(Missing::Kernel),
        drop_reasons: Reading::Seen(Counters::new()),
        applications: Reading::Missing(Missing::NotAsked),
        paths: Reading::Seen(Paths::default()),
    }
}

fn qdisc() -> Qdisc {
    Qdisc {
        device: "eth0".to_owned(),
        kind: "tbf".to_owned(),
        handle: 0x10000,
        parent: u32::MAX,
        packets: 0,
        drops: 0,
        overlimits: 0,
        requeues: 0,
        queued: 0,
        queued_bytes: 0,
    }
}

fn protocols() -> Protocols {
    Protocols {
        ip: zeros(&[
            "InReceives",
            "InHdrErrors",
            "InAddrErrors",
            "ForwDatagrams",
            "InUnknownProtos",
            "InDiscards",
            "InDelivers",
            "OutRequests",
            "OutDiscards",
            "OutNoRoutes",
            "ReasmTimeout",
            "ReasmReqds",
            "ReasmOKs",
            "ReasmFails",
            "FragFails",
        ]),
        ip_ext: zeros(&["InNoRoutes", "InTruncatedPkts", "InCsumErrors"]),
        tcp_ext: zeros(&["IPReversePathFilter"]),
        icmp: zeros(&["InDestUnreachs", "OutDestUnreachs"]),
        udp: zeros(&[
            "InDatagrams",
            "NoPorts",
            "InErrors",
            "OutDatagrams",
            "RcvbufErrors",
            "SndbufErrors",
            "InCsumErrors",
            "IgnoredMulti",
            "MemErrors",
        ]),
        ipv6: Some(zeros(&[
            "Ip6InReceives",
            "Ip6InHdrErrors",
            "Ip6InTooBigErrors",
            "Ip6InNoRoutes",
            "Ip6InAddrErrors",
            "Ip6InDelivers",
            "Ip6OutForwDatagrams",
            "Ip6OutDiscards",
            "Ip6OutNoRoutes",
            "Ip6InDiscards",
            "Ip6ReasmFails",
            "Ip6FragFails",
            "Ip6InMcastPkts",
            "Ip6OutMcastPkts",
            "Ip6InTruncatedPkts",
            "Icmp6InPktTooBigs",
            "Udp6InDatagrams",
            "Udp6NoPorts",
            "Udp6InErrors",
            "Udp6OutDatagrams",
            "Udp6RcvbufErrors",
            "Udp6SndbufErrors",
            "Udp6InCsumErrors",
            "Udp6MemErrors",
        ])),
    }
}

pub(crate) fn socket() -> Socket {
    Socket {
        family: Family::V4,
        local: LOCAL.to_owned(),
        remote: None,
        inode: 9,
        user: 0,
        receive_queue: 0,
        receive_buffer: Some(BUFFER),
        send_queue: 0,
        send_buffer: Some(BUFFER),
        drops: 5,
        owners: vec![READER],
    }
}

pub(crate) fn process() -> Process {
    let thread = Thread {
        name: "server".to_owned(),
        state: RunState::Sleeping,
        ran: 0,
        waited: 0,
        slices: 0,
    };
    let threads = BTreeMap::from([(READER, thread)]);
    Process { name: "server".to_owned(), started: 42, threads, throttling: None }
}

/// A complete snapshot, with mutable access to its parts.
pub(crate) struct Parts<'a>(pub(crate) &'a mut Snapshot);

fn seen<T>(reading: &mut Reading<T>) -> &mut T {
    match reading {
        Reading::Seen(value) => value,
        Reading::Missing(_) => panic!("the part is there"),
    }
}

impl Parts<'_> {
    pub(crate) fn device(&mut self) -> &mut Device {
        seen(&mut self.0.devices).get_mut("eth0").unwrap()
    }

    pub(crate) fn device_counter(&mut self, name: &str, by: u64) {
        bump(&mut self.device().statistics, name, by);
    }

    pub(crate) fn driver_counter(&mut self, name: &str, by: u64) {
        bump(&mut seen(&mut self.device().driver).statistics, name, by);
    }

    /// Increases a statistic of an AF_XDP socket on the device; the socket is created on first use.
    pub(crate) fn xdp_socket(&mut self, name: &str, by: u64) {
        let names = ["rx_dropped", "rx_invalid", "rx_full", "fill_ring_empty"];
        let socket = seen(&mut self.0.xdp_sockets).entry(KEY).or_insert_with(|| XdpSocket {
            inode: 9,
            user: Some(0),
            device: Some(2),
            queue: Some(0),
            statistics: Reading::Seen(zeros(&names)),
        });
        if let Reading::Seen(statistics) = &mut socket.statistics {
            bump(statistics, name, by);
        }
    }

    pub(crate) fn protocols(&mut self) -> &mut Protocols {
        seen(&mut self.0.protocols)
    }

    pub(crate) fn ip(&mut self, name: &str, by: u64) {
        bump(&mut self.protocols().ip, name, by);
    }

    pub(crate) fn udp(&mut self, name: &str, by: u64) {
        bump(&mut self.protocols().udp, name, by);
    }

    pub(crate) fn ipv6(&mut self, name: &str, by: u64) {
        bump(self.protocols().ipv6.as_mut().unwrap(), name, by);
    }

    pub(crate) fn reason(&mut self, name: &str, by: u64) {
        if let Reading::Seen(reasons) = &mut self.0.drop_reasons {
            bump(reasons, name, by);
        }
    }

    pub(crate) fn conntrack(&mut self) -> &mut Conntrack {
        seen(&mut self.0.conntrack)
    }

    pub(crate) fn softnet(&mut self) -> &mut SoftnetCpu {
        &mut seen(&mut self.0.softnet)[0]
    }

    pub(crate) fn qdisc(&mut self) -> &mut Qdisc {
        &mut seen(&mut self.0.qdiscs)[0]
    }

    pub(crate) fn sockets(&mut self) -> &mut BTreeMap<SocketKey, Socket> {
        seen(&mut self.0.sockets)
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        self.sockets().get_mut(&KEY).unwrap()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        seen(&mut self.0.processes).get_mut(&READER).unwrap()
    }

    pub(crate) fn thread(&mut self) -> &mut Thread {
        self.process().threads.get_mut(&READER).unwrap()
    }

    /// Returns another thread of the process, with the same name.
    pub(crate) fn sibling(&mut self) -> &mut Thread {
        let like = Thread { ran: 0, waited: 0, slices: 0, ..self.thread().clone() };
        self.process().threads.entry(READER + 1).or_insert(like)
    }

    /// Adds datagrams that arrive intact and are read, and responses to them.
    pub(crate) fn traffic(&mut self, datagrams: u64) {
        self.device_counter("rx_packets", datagrams);
        self.device_counter("rx_bytes", datagrams.wrapping_mul(1_242));
        self.device_counter("tx_packets", datagrams);
        self.softnet().processed += datagrams;
        self.ip("InReceives", datagrams);
        self.ip("InDelivers", datagrams);
        self.ip("OutRequests", datagrams);
        self.udp("InDatagrams", datagrams);
        self.udp("OutDatagrams", datagrams);
    }

    /// Adds datagrams that are dropped because the socket's buffer is full.
    pub(crate) fn overflow(&mut self, datagrams: u64) {
        self.ip("InReceives", datagrams);
        self.ip("InDelivers", datagrams);
        for name in ["InErrors", "RcvbufErrors"] {
            self.udp(name, datagrams);
        }
        self.socket().drops += datagrams;
        self.reason("SOCKET_RCVBUFF", datagrams);
    }

    /// Adds the milliseconds during which the reader ran, and during which it waited for a CPU.
    pub(crate) fn reader(&mut self, ran: u64, waited: u64) {
        self.thread().ran += ran * 1_000_000;
        self.thread().waited += waited * 1_000_000;
    }
}

/// Returns `count` snapshots of a host to which `happens` is applied in each step.
pub(crate) fn course(count: u64, mut happens: impl FnMut(&mut Parts<'_>, u64)) -> Vec<Snapshot> {
    let (mut now, mut all) = (host(), Vec::new());
    for step in 0..count {
        all.push(now.clone());
        now.taken += STEP;
        Parts(&mut now).traffic(100);
        Parts(&mut now).thread().ran += 20_000_000;
        happens(&mut Parts(&mut now), step);
    }
    all
}
