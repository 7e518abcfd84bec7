//! Fuzzes datagrams to an endpoint, from unknown senders, from connecting clients, and for existing
//! connections.
#![no_main]

use std::time::Duration;

use clearway_limits::scene::{address, endpoint, settings};
use clearway_transport::{Arrival, EcnCodepoint, Received};
use clearway_units::Timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut now = Timestamp::from_origin(Duration::from_secs(1));
    let mut server = endpoint(true, &settings(), 4, now);
    let mut buffer = vec![0; 1200];
    let mut known = Vec::new();
    let mut rest = data;
    while let Some(([first, high, low], bytes)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len());
        let (datagram, others) = bytes.split_at(length);
        rest = others;
        // An Initial packet is only processed in a datagram of at least 1200 bytes.
        let size = if first & 0x10 == 0 { length } else { length.max(1200) };
        let mut datagram = datagram.to_vec();
        datagram.resize(size, 0);
        now += Duration::from_millis(u64::from(first >> 5));
        let arrival = Arrival {
            remote: address(u32::from(first & 1)),
            socket: clearway_transport::SocketIndex::default(),
            local_ip: None,
            ecn: EcnCodepoint::from_bits(first >> 1),
        };
        match server.receive(now, arrival, &mut datagram) {
            Received::Incoming(incoming) => match first >> 1 & 3 {
                0 | 1 => known.extend(server.accept(now, incoming, None)),
                2 => server.retry(now, &incoming),
                _ => server.refuse(incoming),
            },
            _ => {}
        }
        for handle in &known {
            if let Some(connection) = server.connection_mut(*handle) {
                while connection.next_event().is_some() {}
            }
            server.on_deadline(*handle, now, now);
            while server.transmit(*handle, now, &mut buffer, 1).is_some() {
                server.transmitted(*handle, now);
            }
            server.release(*handle, now);
            server.remove_released(*handle);
        }
        while server.next_reply().is_some() {}
        assert!(server.connection_count() <= 4);
    }
});
