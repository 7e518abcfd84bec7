//! Tests the cost of a process's first random bytes. The test needs a separate process, since other
//! code might draw random bytes first.

use std::thread;
use std::time::Duration;

use clearway::Endpoint;
use clearway::rustls::crypto::aws_lc_rs::default_provider;
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that `act` takes on this thread.
fn processor_time(act: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
    };
    let before = now();
    act();
    now() - before
}

/// Returns the cost for a thread that has not drawn random bytes yet, like a shard before its first
/// handshake.
fn first_draw_of_a_thread() -> Duration {
    let draw = || {
        default_provider().secure_random.fill(&mut [0; 32]).unwrap();
    };
    thread::spawn(move || processor_time(draw)).join().unwrap()
}

#[test]
fn no_handshake_waits_for_entropy_once_an_endpoint_is_bound() {
    let mut endpoint = None;
    let binding = processor_time(|| {
        endpoint = Some(Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap());
    });
    let (first, second) = (first_draw_of_a_thread(), first_draw_of_a_thread());
    // Gathering entropy while binding costs more than everything else by two orders of magnitude.
    assert!(
        first < binding / 4 && second < binding / 4,
        "binding took {binding:?}, random bytes then {first:?} and {second:?}"
    );
}
