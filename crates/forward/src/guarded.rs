//! Guarded calls to the routing: a panic drops the current datagram but has no other effect.

use core::net::SocketAddr;

use clearway_io::guard;
use clearway_units::Timestamp;

use super::{Routed, Routing};

/// A routing in which a panic only drops the current datagram.
pub(super) struct GuardedRouting(pub(super) Box<dyn Routing>);

const DROPPED: &str = "routing panicked: one datagram was dropped";
const NOT_SAVED: &str = "routing panicked: its state is not handed over to the next process";
const NOT_RESTORED: &str = "routing panicked: the state of the previous process is not used";
const NO_TURN: &str = "routing panicked at the start of a batch";

impl Routing for GuardedRouting {
    fn route(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Routed {
        let routed = guard(DROPPED, || self.0.route(now, client, local, datagram));
        routed.unwrap_or(Routed::Dropped)
    }

    fn observe(&mut self, now: Timestamp, server: SocketAddr, client: SocketAddr, datagram: &[u8]) {
        let _ = guard(DROPPED, || self.0.observe(now, server, client, datagram));
    }

    fn save(&mut self, now: Timestamp) -> Vec<u8> {
        guard(NOT_SAVED, || self.0.save(now)).unwrap_or_default()
    }

    fn restore(&mut self, now: Timestamp, saved: &[u8]) {
        let _ = guard(NOT_RESTORED, || self.0.restore(now, saved));
    }

    fn is_server(&self, address: SocketAddr) -> bool {
        guard(DROPPED, || self.0.is_server(address)).unwrap_or(false)
    }

    fn turn(&mut self, now: Timestamp) {
        let _ = guard(NO_TURN, || self.0.turn(now));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A routing that panics whenever it is called, and counts the calls.
    #[derive(Clone, Default)]
    struct Panicking(Arc<AtomicU32>);

    impl Panicking {
        fn panic(&self) -> ! {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("this panic is intended")
        }
    }

    impl Routing for Panicking {
        fn route(&mut self, _: Timestamp, _: SocketAddr, _: SocketAddr, _: &[u8]) -> Routed {
            self.panic()
        }

        fn observe(&mut self, _: Timestamp, _: SocketAddr, _: SocketAddr, _: &[u8]) {
            self.panic()
        }

        fn save(&mut self, _: Timestamp) -> Vec<u8> {
            self.panic()
        }

        fn restore(&mut self, _: Timestamp, _: &[u8]) {
            self.panic()
        }

        fn is_server(&self, _: SocketAddr) -> bool {
            self.panic()
        }

        fn turn(&mut self, _: Timestamp) {
            self.panic()
        }
    }

    #[test]
    fn a_routing_that_panics_loses_datagrams_only() {
        let panicking = Panicking::default();
        let mut routing = GuardedRouting(Box::new(panicking.clone()));
        let (now, any) = (Timestamp::ORIGIN, "192.0.2.1:443".parse().unwrap());
        routing.restore(now, b"saved");
        routing.turn(now);
        assert_eq!(routing.route(now, any, any, b"datagram"), Routed::Dropped);
        routing.observe(now, any, any, b"datagram");
        assert!(!routing.is_server(any));
        assert!(routing.save(now).is_empty());
        assert_eq!(panicking.0.load(Ordering::Relaxed), 6);
    }
}
