//! Measures the memory of an idle server connection: transport, TLS and HTTP/3 together.

use clearway_limits::idle::{IdleServer, LARGE_CONTENT};
use clearway_transport::Side;

/// The latest measured bytes per connection, after one request and after two. The client's second
/// request adds fields to QPACK's dynamic table, where they remain. The test fails if the memory is
/// a twentieth larger. A change that reduces the memory should lower these numbers.
const BYTES: [u64; 2] = [5_178, 5_845];

/// Number of connections before the measurement. They fill the table of TLS sessions, which has 256
/// entries for any number of connections.
const BEFORE: u64 = 300;
const MEASURED: u64 = 100;

/// Returns the memory in bytes per connection after this number of requests.
fn measure(requests: u32) -> u64 {
    let mut server = IdleServer::new(LARGE_CONTENT);
    let mut serve = |count| {
        let mut live = 0_i64;
        for _ in 0..count {
            server.serve_one(requests, &mut |side, _, act| match side {
                Side::Server => live += allocation_counter::measure(act).bytes_current,
                Side::Client => act(),
            });
        }
        live
    };
    serve(BEFORE);
    let live = u64::try_from(serve(MEASURED)).expect("more than before");
    assert_eq!(server.connection_count() as u64, BEFORE + MEASURED);
    live / MEASURED
}

/// Allocations by the cryptographic library are not counted: a compacted connection holds no keys
/// there.
#[test]
fn an_idle_connection_keeps_little() {
    let measured = [1, 2].map(measure);
    println!("{measured:?} bytes for each idle connection, after one request and after two");
    for (each, held) in measured.into_iter().zip(BYTES) {
        assert!(each <= held + held / 20, "{measured:?} bytes for a connection, not {BYTES:?}");
        assert!(each >= held - held / 20, "{measured:?} bytes: lower the figures {BYTES:?}");
    }
}
