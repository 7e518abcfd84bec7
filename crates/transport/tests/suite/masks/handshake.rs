//! The handshake (RFC 9000 §7, RFC 9002 §6.2).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use clearway_network::Way;
use clearway_transport::Side;

use super::{every_mask, lose, quick_masks, with_masks};
use crate::support::{
    Pair, Tls, delayed, large_tls, long_hello_tls, milliseconds, quiet, seconds, tls,
};

/// The probe timeout before there is an RTT sample (RFC 9002 §6.2.2).
const FIRST_TIMEOUT: Duration = Duration::from_millis(999);

/// Both endpoints confirm the handshake. A flight consists of the packets that one endpoint sends
/// at the same time. If part of a flight arrives, the peer's response reveals that the rest is
/// missing, and the rest is retransmitted (RFC 9002 §6.2.3). Only a completely lost flight costs a
/// probe timeout, which doubles each time.
fn handshake(tls: &Tls, mask: u32) {
    let mut pair = Pair::with_tls(delayed(10, 1), quiet(), quiet(), tls);
    lose(&mut pair, mask);
    let flights: Rc<RefCell<BTreeMap<_, bool>>> = Rc::default();
    let (record, mut loss) = (flights.clone(), pair.filter.take().unwrap());
    pair.filter = Some(Box::new(move |now, way, datagram| {
        let arrives = loss(now, way, datagram);
        *record.borrow_mut().entry((now, way == Way::ToServer)).or_default() |= arrives;
        arrives
    }));
    let start = pair.now;
    pair.establish_within(seconds(1000));
    let took = pair.now.saturating_since(start);
    let lost = flights.borrow().values().filter(|arrives| !**arrives).count();
    let timeouts = FIRST_TIMEOUT * ((1 << lost) - 1);
    let bound = milliseconds(300) + timeouts;
    assert!(took <= bound, "{lost} flights lost: {took:?}, more than {bound:?}");
    pair.filter = None;
    pair.run_for(seconds(5));
    pair.watch.check_all_arrived();
    for end in [Side::Client, Side::Server] {
        assert_eq!(pair.watch.remote_ids(end), super::REMOTE_IDS, "{end:?}");
    }
}

fn all(masks: &[u32]) {
    with_masks("a handshake", masks, |mask| handshake(tls(), mask));
    with_masks("a ClientHello of two datagrams", masks, |mask| handshake(long_hello_tls(), mask));
    with_masks("a large certificate", masks, |mask| handshake(large_tls(), mask));
}

#[test]
fn a_handshake_survives_losses() {
    all(&quick_masks());
}

#[test]
#[ignore = "1,024 masks for each handshake: cargo test --release -p clearway-transport --test suite masks -- --ignored"]
fn a_handshake_survives_every_loss() {
    all(&every_mask());
}
