//! What an idle connection of a server keeps: the transport, TLS and HTTP/3 together.

use clearway_limits::idle::IdleServer;

/// The bytes of each connection that were measured last. More than a twentieth above it fails; a change that lowers it
/// lowers it here.
const BYTES: u64 = 8_151;

/// Connections before the measurement. They fill the table of TLS sessions, which is as large for any number of
/// connections.
const BEFORE: u64 = 200;
const MEASURED: u64 = 100;

/// The allocations of the cryptographic library are not counted: a connection that rests has no keys there.
#[test]
fn an_idle_connection_keeps_little() {
    let mut server = IdleServer::new();
    let mut live = 0;
    let mut serve = |count| {
        live = 0_i64;
        for _ in 0..count {
            server.serve_one(&mut |act| live += allocation_counter::measure(act).bytes_current);
        }
        live
    };
    serve(BEFORE);
    let each = u64::try_from(serve(MEASURED)).expect("more than before") / MEASURED;
    println!("{each} bytes for each idle connection");
    assert!(each <= BYTES + BYTES / 20, "{each} bytes for each idle connection, not {BYTES}");
    assert!(each >= BYTES - BYTES / 20, "{each} bytes: lower the figure of {BYTES}");
    assert_eq!(server.connection_count() as u64, BEFORE + MEASURED);
}
