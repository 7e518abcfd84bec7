use clearway_congestion::Phase;
use clearway_wire::{Direction, StreamId};

use super::super::tests::{CLIENT, SERVER, Wire, from};
use crate::config::TransportConfig;

/// A download of `size` bytes over an interface that rejects datagrams of more than `mtu` bytes and
/// a network that drops datagrams of more than `path` bytes, with a delay of 10 ms each way.
/// Records the sizes of the datagrams that the server sent and of those that the interface
/// rejected.
struct Download {
    wire: Wire,
    stream: StreamId,
    left: usize,
    mtu: usize,
    path: usize,
    refused: Vec<usize>,
    sent: Vec<usize>,
    received: usize,
}

impl Download {
    fn new(transport: TransportConfig, size: usize, mtu: usize, path: usize) -> Self {
        let mut wire = Wire::with(transport);
        let stream = wire.server().open(Direction::Unidirectional).unwrap();
        let (refused, sent) = (Vec::new(), Vec::new());
        Self { wire, stream, left: size, mtu, path, refused, sent, received: 0 }
    }

    fn write(&mut self) {
        let data = vec![0; self.left.min(1 << 20)];
        let stream = self.stream;
        if !data.is_empty() {
            self.left -= self.wire.server().write_slice(stream, &data).unwrap();
            if self.left == 0 {
                self.wire.server().finish(stream).unwrap();
            }
        }
    }

    /// Returns the datagrams that the server sends now and the interface accepts.
    fn transmit(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 65_536];
        let mut taken = Vec::new();
        let (now, accepted) = (self.wire.now, self.wire.accepted);
        while let Some(transmit) = self.wire.server.transmit(accepted, now, &mut buffer, 10) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            if segment > self.mtu {
                self.refused.push(segment);
                self.wire.server.transmit_refused(accepted, now);
                continue;
            }
            self.wire.server.transmitted(accepted, now);
            for datagram in buffer[..transmit.size].chunks(segment) {
                self.sent.push(datagram.len());
                if datagram.len() <= self.path {
                    taken.push(datagram.to_vec());
                }
            }
        }
        taken
    }

    /// Simulates one round trip. Returns whether the client has received everything.
    fn round(&mut self) -> bool {
        self.write();
        let down = self.transmit();
        self.wire.now += core::time::Duration::from_millis(10);
        let now = self.wire.now;
        for mut datagram in down {
            self.wire.client.receive(now, from(SERVER), &mut datagram);
        }
        let is_over = self.read();
        let handle = self.wire.handle;
        for mut datagram in super::super::tests::datagrams(&mut self.wire.client, handle, now) {
            self.wire.server.receive(now, from(CLIENT), &mut datagram);
        }
        self.wire.now += core::time::Duration::from_millis(10);
        let now = self.wire.now;
        for connection in [
            self.wire.server.connection_mut(self.wire.accepted),
            self.wire.client.connection_mut(self.wire.handle),
        ]
        .into_iter()
        .flatten()
        {
            if connection.deadline().is_some_and(|at| at <= now) {
                connection.on_deadline(now);
            }
        }
        is_over
    }

    fn read(&mut self) -> bool {
        let now = self.wire.now;
        let stream = self.stream;
        while let Ok(outcome) = self.wire.client().read(now, stream, usize::MAX) {
            match outcome {
                crate::ReadOutcome::Data(data) => self.received += data.len(),
                crate::ReadOutcome::Blocked => return false,
                crate::ReadOutcome::Finished => return true,
            }
        }
        false
    }

    fn run(&mut self) {
        for _ in 0..1000 {
            if self.round() {
                return;
            }
        }
        panic!("the download does not end");
    }
}

fn standard() -> TransportConfig {
    TransportConfig::default()
}

/// Datagrams that the interface rejects count as lost without a congestion signal, and every packet
/// is accounted for.
#[test]
fn what_the_interface_refuses_costs_nothing() {
    let mut download = Download::new(standard(), 3_000_000, 1472, 1472);
    download.run();
    assert_eq!(download.received, 3_000_000);
    assert_eq!(download.sent.iter().max(), Some(&1472));
    assert_eq!(download.refused, [8972, 1974], "each once");
    let server = download.wire.server();
    assert_eq!(server.datagram_size(), 1472);
    let statistics = server.statistics();
    assert_eq!((statistics.congestion_events, statistics.packets_lost), (0, 0));
    assert_ne!(statistics.congestion_phase, Phase::Recovery.name());
    let counts = server.recovery.get().stats().counts;
    assert_eq!(counts.packets_discarded, 2);
}

/// The interface's MTU shrinks: the datagrams in the current batch are lost, and smaller ones
/// follow.
#[test]
fn an_interface_that_shrinks_is_noticed_at_once() {
    let mut download = Download::new(standard(), 3_000_000, 65_536, 1472);
    for _ in 0..20 {
        download.round();
    }
    assert_eq!(download.wire.server().datagram_size(), 1472);
    download.mtu = 1300;
    let before = download.sent.len();
    download.round();
    assert!(download.refused.ends_with(&[1472]) || download.wire.server().datagram_size() < 1300);
    assert!(download.wire.server().datagram_size() < 1300);
    download.run();
    assert!(download.sent[before..].iter().all(|size| *size <= 1300));
    assert!((1284..=1300).contains(&download.wire.server().datagram_size()));
}

/// RFC 9000 §14.4, RFC 8899 §3 (item 7): lost probes are not congestion signals, and a larger size
/// does not change the window.
#[test]
fn lost_probes_are_no_congestion_and_the_window_keeps_its_bytes() {
    let mut download = Download::new(standard(), 20_000_000, 65_536, 1472);
    let mut largest = 0;
    loop {
        let before = download.wire.server().statistics();
        let is_over = download.round();
        let after = download.wire.server().statistics();
        let acknowledged = after.bytes_sent - before.bytes_sent + before.bytes_in_flight;
        assert!(after.congestion_window <= before.congestion_window + acknowledged);
        assert_eq!(after.congestion_events, 0);
        largest = largest.max(after.datagram_size);
        if is_over {
            break;
        }
    }
    assert_eq!(largest, 1472);
    let count = |size| download.sent.iter().filter(|sent| **sent == size).count();
    assert_eq!((count(8972), count(1974)), (3, 3));
}

/// A client that only downloads does not need large datagrams, and sends none.
#[test]
fn who_sends_little_does_not_probe() {
    let mut download = Download::new(standard(), 1_000_000, 65_536, 65_536);
    download.run();
    let client = download.wire.client();
    assert_eq!(client.datagram_size(), 1200);
    assert!(client.statistics().bytes_sent < 100_000);
    assert!(download.wire.server().datagram_size() > 8900);
}

#[test]
fn without_discovery_the_size_stays() {
    let transport =
        TransportConfig::builder().initial_datagram_size(1400).discover_path_mtu(false).build();
    let mut download = Download::new(transport.unwrap(), 1_000_000, 65_536, 65_536);
    download.run();
    assert_eq!(download.sent.iter().max(), Some(&1400));
}

/// A client whose requests were all sent as early data, in full datagrams, does not probe; one that
/// continues to send does.
#[test]
fn early_data_alone_does_not_begin_the_search() {
    let mut wire = Wire::resumed();
    for (length, grows) in [(4_000, false), (20_000, true)] {
        assert_eq!(wire.client().is_confirmed(), grows);
        let stream = wire.client().open(Direction::Unidirectional).unwrap();
        wire.client().write_slice(stream, &vec![0; length]).unwrap();
        wire.exchange();
        assert_eq!(wire.client().datagram_size() > 1200, grows, "{length}");
        assert_eq!(wire.client().statistics().packets_lost, 0);
    }
}
