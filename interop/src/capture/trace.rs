//! All QUIC packets in a capture, in capture order.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::connection::{Connection, Opened, Secrets};
use super::header::{self, Header, Kind};
use super::ip::{self, Datagram};
use super::key_log::KeyLog;
use super::pcap;
use super::sender::Sender;

/// A captured QUIC packet.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) at: Duration,
    pub(crate) sender: Sender,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// The two ECN bits of the IP header.
    pub(crate) ecn: u8,
    /// Index of the packet's datagram in the capture, and length of the datagram's payload.
    pub(crate) datagram: (usize, usize),
    pub(crate) kind: Kind,
    pub(crate) version: u32,
    /// The packet's Destination Connection ID. For a 1-RTT packet, it is known only if the packet
    /// could be decrypted.
    pub(crate) destination_id: Vec<u8>,
    pub(crate) source_id: Vec<u8>,
    pub(crate) token: Vec<u8>,
    /// Length of the protected part of the packet: the packet number and the encrypted payload.
    pub(crate) protected_length: usize,
    /// The decrypted content of the packet, if it could be decrypted.
    pub(crate) opened: Option<Opened>,
}

/// The packets and connections that were captured at one place.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) packets: Vec<Packet>,
    pub(crate) connections: Vec<Connection>,
}

impl Trace {
    /// Parses a capture, where `is_server` returns whether an address is the server's.
    pub(crate) fn read(
        path: &Path,
        log: &KeyLog,
        is_server: impl Fn(&SocketAddr) -> bool,
    ) -> io::Result<Self> {
        let packets = pcap::read(path)?;
        let datagrams = packets.iter().filter_map(|(at, packet)| ip::datagram(*at, packet));
        let datagrams: Vec<(Sender, Datagram)> = datagrams
            .map(|datagram| {
                let from_server = is_server(&datagram.source);
                (if from_server { Sender::Server } else { Sender::Client }, datagram)
            })
            .collect();
        // The Initial packets show to which connection each secret belongs.
        let first = Reader::new(Vec::new()).read(&datagrams);
        let secrets = first.connections.iter().map(|it| it.prepare_second_reading(log)).collect();
        Ok(Reader::new(secrets).read(&datagrams))
    }

    /// Returns the packets of one type from one sender.
    pub(crate) fn of(&self, sender: Sender, kind: Kind) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.sender == sender && packet.kind == kind)
    }

    /// Returns all packets from one sender.
    pub(crate) fn from(&self, sender: Sender) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.sender == sender)
    }
}

struct Reader {
    /// The secrets of each connection, in the order in which the connections start.
    secrets: Vec<Option<Secrets>>,
    trace: Trace,
}

impl Reader {
    fn new(secrets: Vec<Option<Secrets>>) -> Self {
        Self { secrets, trace: Trace::default() }
    }

    fn read(mut self, datagrams: &[(Sender, Datagram)]) -> Trace {
        for (index, (sender, datagram)) in datagrams.iter().enumerate() {
            for header in header::packets(&datagram.payload) {
                let found = self.open(*sender, datagram, &header);
                let (destination_id, opened) = match found {
                    Some((id, opened)) => (id, Some(opened)),
                    None => (header.destination_id.to_vec(), None),
                };
                self.trace.packets.push(Packet {
                    at: datagram.at,
                    sender: *sender,
                    source: datagram.source,
                    destination: datagram.destination,
                    ecn: datagram.ecn,
                    datagram: (index, datagram.payload.len()),
                    kind: header.kind,
                    version: header.version,
                    destination_id,
                    source_id: header.source_id.to_vec(),
                    token: header.token.to_vec(),
                    protected_length: header.packet.len().saturating_sub(header.number_offset),
                    opened,
                });
            }
        }
        self.trace
    }

    /// Decrypts a packet, and returns its Destination Connection ID and content.
    fn open(
        &mut self,
        sender: Sender,
        datagram: &Datagram,
        header: &Header<'_>,
    ) -> Option<(Vec<u8>, Opened)> {
        let client = match sender {
            Sender::Client => datagram.source,
            Sender::Server => datagram.destination,
        };
        let candidates = self.candidates(sender, client, header);
        if header.kind == Kind::Retry {
            // The client continues with the connection ID from the Retry packet.
            if let Some((connection, _)) = candidates.first() {
                self.trace.connections.get_mut(*connection)?.on_retry(header.source_id);
            }
            return None;
        }
        for (connection, id_length) in candidates {
            let state = self.trace.connections.get_mut(connection)?;
            if let Some(opened) = state.open(sender, header, id_length) {
                state.client = Some(client);
                let id = match header.kind {
                    Kind::OneRtt => header.packet.get(1..1 + id_length)?,
                    _ => header.destination_id,
                };
                return Some((id.to_vec(), opened));
            }
        }
        if header.kind != Kind::Initial || sender == Sender::Server {
            return None;
        }
        // A connection starts with the client's first Initial packet that can be decrypted.
        let mut state = Connection::default();
        let opened = state.open(sender, header, 0)?;
        state.client = Some(client);
        let connection = self.trace.connections.len();
        if let Some(Some(secrets)) = self.secrets.get(connection) {
            state.set_secrets(secrets)?;
        }
        self.trace.connections.push(state);
        Some((header.destination_id.to_vec(), opened))
    }

    /// Returns the connections that a packet may belong to, each with the length of its Destination
    /// Connection ID: first the ones with a matching connection ID, then the ones at the client's
    /// address, then all others whose connection IDs have to be tried.
    fn candidates(
        &self,
        sender: Sender,
        client: SocketAddr,
        header: &Header<'_>,
    ) -> Vec<(usize, usize)> {
        let (mut by_id, mut by_address) = (Vec::new(), Vec::new());
        for (index, state) in self.trace.connections.iter().enumerate().rev() {
            let receiver_ids = &state.ids[sender.other().index()];
            if header.kind == Kind::OneRtt {
                let rest = header.packet.get(1..).unwrap_or_default();
                let known = receiver_ids.iter().filter(|id| rest.starts_with(id));
                let known = known.map(|id| (index, id.len()));
                let (empty, known): (Vec<_>, Vec<_>) = known.partition(|(_, length)| *length == 0);
                by_id.extend(known);
                if state.client == Some(client) {
                    by_address.splice(0..0, empty);
                } else {
                    by_address.extend(empty);
                }
                continue;
            }
            let is_first =
                sender == Sender::Client && state.first_ids.contains(header.destination_id);
            let is_known = |ids: &std::collections::BTreeSet<Vec<u8>>, id: &[u8]| {
                !id.is_empty() && ids.contains(id)
            };
            // A client may use the same address for several connections, each of which starts with
            // an Initial packet.
            let may_begin = sender == Sender::Client && header.kind == Kind::Initial;
            if is_first
                || is_known(receiver_ids, header.destination_id)
                || is_known(&state.ids[sender.index()], header.source_id)
            {
                by_id.push((index, 0));
            } else if state.client == Some(client) && !may_begin {
                by_address.push((index, 0));
            }
        }
        by_id.extend(by_address);
        by_id
    }
}
