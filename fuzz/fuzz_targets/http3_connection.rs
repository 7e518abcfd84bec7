//! Fuzzes the peer's streams to an HTTP/3 connection in either role, in any order and split into
//! pieces of any size.
#![no_main]

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use clearway_http3::{Config, Connection, ReadEnd, Role, Transport, WriteError};
use clearway_units::Random;
use libfuzzer_sys::fuzz_target;

/// The peer's streams, and unlimited space for all data that is written.
#[derive(Default)]
struct Streams {
    peers: [VecDeque<u64>; 2],
    incoming: BTreeMap<u64, VecDeque<Bytes>>,
    ends: BTreeMap<u64, ReadEnd>,
    opened: [u64; 2],
    is_client: bool,
    closed: bool,
}

impl Streams {
    fn open(&mut self, is_unidirectional: bool) -> Option<u64> {
        let count = &mut self.opened[usize::from(is_unidirectional)];
        *count += 1;
        Some((*count - 1) * 4 + u64::from(is_unidirectional) * 2 + u64::from(!self.is_client))
    }
}

impl Transport for Streams {
    fn open_bidirectional(&mut self) -> Option<u64> {
        self.open(false)
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.open(true)
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.peers[0].pop_front()
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.peers[1].pop_front()
    }

    fn write(&mut self, _: u64, data: Bytes) -> Result<usize, WriteError> {
        Ok(data.len())
    }

    fn finish(&mut self, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn reset(&mut self, _: u64, _: u64) {}

    fn stop_sending(&mut self, stream: u64, _: u64) {
        self.incoming.remove(&stream);
    }

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        let end = self.ends.get(&stream).copied();
        if let Some(end @ ReadEnd::Reset(_)) = end {
            return Err(end);
        }
        let Some(chunk) = self.incoming.get_mut(&stream).and_then(VecDeque::front_mut) else {
            return end.map_or(Ok(None), Err);
        };
        if max == 0 {
            return Ok(None);
        }
        let part = chunk.split_to(max.min(chunk.len()));
        if chunk.is_empty() {
            self.incoming.get_mut(&stream).map(VecDeque::pop_front);
        }
        Ok(Some(part))
    }

    fn close(&mut self, _: u64, _: &str) {
        self.closed = true;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, mut rest)) = data.split_first() else { return };
    let is_client = first & 1 == 1;
    let role = if is_client { Role::Client } else { Role::Server };
    let config = Config { max_field_section_size: 2048, ..Config::default() };
    let mut connection = Connection::new(role, config, &mut Random::from_number(1));
    let mut streams = Streams { is_client, ..Streams::default() };
    connection.on_streams_available(&mut streams);
    if is_client {
        for method in ["GET", "HEAD", "CONNECT"] {
            let uri = if method == "CONNECT" { "example.org:443" } else { "https://example.org/" };
            let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
            let _ = connection.send_request(&mut streams, &request, method != "CONNECT");
        }
    }
    let mut known = Vec::new();
    while let Some(([what, length], bytes)) = rest.split_first_chunk() {
        let (chunk, others) = bytes.split_at(usize::from(*length).min(bytes.len()));
        rest = others;
        let is_unidirectional = what & 4 != 0;
        let index = u64::from(what & 3);
        // Clients open all request streams.
        let side = u64::from(is_unidirectional && is_client);
        let stream = index * 4 + u64::from(is_unidirectional) * 2 + side;
        if !known.contains(&stream) {
            known.push(stream);
            if is_unidirectional || !is_client {
                streams.peers[usize::from(is_unidirectional)].push_back(stream);
            }
        }
        if !chunk.is_empty() && !streams.ends.contains_key(&stream) {
            let chunk = Bytes::copy_from_slice(chunk);
            streams.incoming.entry(stream).or_default().push_back(chunk);
        }
        match what >> 3 & 7 {
            1 => drop(streams.ends.entry(stream).or_insert(ReadEnd::Finished)),
            2 => drop(streams.ends.entry(stream).or_insert(ReadEnd::Reset(0x10c))),
            3 if !is_unidirectional => connection.on_stopped(&mut streams, stream, 0x10c),
            _ => {}
        }
        connection.on_streams_arrived(&mut streams);
        connection.on_readable(&mut streams, stream);
        while connection.next_event().is_some() {}
        if !is_unidirectional {
            for _ in 0..4 {
                let Some(body) = connection.read_body(&mut streams, stream, 64) else { break };
                assert!(!body.is_empty() && body.len() <= 64);
            }
        }
        assert!(connection.is_closed() == streams.closed);
        if connection.is_closed() {
            assert!(connection.error().is_some());
            return;
        }
    }
});
