//! Fuzzes payloads of 1-RTT packets that a peer with the keys sends to a server and to a client:
//! the connection processes them or closes, and has a deadline whenever it waits.
#![no_main]

use clearway_limits::scene::{Application, Scene};
use clearway_transport::Side;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, mut rest)) = data.split_first() else { return };
    let side = if first & 1 == 0 { Side::Server } else { Side::Client };
    let application = match first >> 1 & 3 {
        0 => Application::Idle,
        1 => Application::Writes,
        _ => Application::Reads,
    };
    let mut scene = Scene::new(side, application);
    while let Some((length, bytes)) = rest.split_first() {
        let (payload, others) = bytes.split_at(usize::from(*length).min(bytes.len()));
        scene.send_bytes(payload);
        rest = others;
        let Some(connection) = scene.victim.connection(scene.handle) else { return };
        let waits = connection.statistics().bytes_in_flight > 0 || connection.is_closed();
        assert!(!waits || connection.is_drained() || connection.deadline().is_some());
    }
});
