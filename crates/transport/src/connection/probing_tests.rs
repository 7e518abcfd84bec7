use super::super::tests::{CLIENT, SERVER, Wire, datagrams, from};
use crate::config::TransportConfig;
use crate::space_id::SpaceId;

/// Decides whether the next datagram is lost, according to the bits of a number, so that all
/// outcomes of a short exchange can be tried.
struct Losses(u32);

impl Losses {
    fn next(&mut self) -> bool {
        let is_lost = self.0 & 1 == 1;
        self.0 >>= 1;
        is_lost
    }
}

/// The ClientHello takes two datagrams, only one of which arrives. Regardless of which of the
/// following datagrams are lost, in both directions, the client's next probes contain everything
/// that the server is missing.
#[test]
fn one_expiry_sends_what_is_missing_of_a_client_hello() {
    for pattern in 0..1 << 9 {
        let mut losses = Losses(pattern);
        let first = usize::from(losses.next());
        let mut wire = Wire::begin(TransportConfig::default(), |sent| drop(sent.remove(first)));
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for _ in 0..3 {
            let (accepted, handle) = (wire.accepted, wire.handle);
            for datagram in &mut sent {
                if !losses.next() {
                    wire.server.receive(wire.now, from(CLIENT), datagram);
                }
            }
            for mut datagram in datagrams(&mut wire.server, accepted, wire.now) {
                if !losses.next() {
                    wire.client.receive(wire.now, from(SERVER), &mut datagram);
                }
            }
            datagrams(&mut wire.client, handle, wire.now);
            sent.clear();
            while sent.is_empty() {
                wire.now = wire.client().deadline().unwrap();
                let now = wire.now;
                wire.client().on_deadline(now);
                wire.server().on_deadline(now);
                sent = datagrams(&mut wire.client, handle, now);
            }
        }
        for datagram in &mut sent {
            wire.server.receive(wire.now, from(CLIENT), datagram);
        }
        let is_whole = wire.server().handshake.protection().can_seal(SpaceId::Application);
        assert!(is_whole, "{pattern:b}");
    }
}
