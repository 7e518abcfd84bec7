//! Sockets that overflow, for each of the possible reasons.

use std::time::Duration;

use clearway_doctor::Stage;

use super::super::reader::Reader;
use super::super::scene::Scene;
use super::super::sender::Pace;
use super::super::site::Place;
use super::{Expected, Fault};

pub(super) const FAULTS: &[Fault] = &[
    Fault::new(
        "rate",
        "10,000 datagrams arrive per second, and the reader reads 5,000",
        Expected::Loss(Stage::Socket, "rate"),
        |scene| {
            scene.read(&Reader::busy(scene.target(), SLOW))?;
            scene.send_to(scene.target(), SIZE, Pace::even(10_000))
        },
    ),
    Fault::new(
        "rate-large-buffer",
        "the same with a buffer of 4 MB",
        Expected::Loss(Stage::Socket, "rate"),
        |scene| {
            let reader = Reader::busy(scene.target(), SLOW);
            scene.read(&Reader { buffer: Some(2 << 20), ..reader })?;
            scene.send_to(scene.target(), SIZE, Pace::even(10_000))
        },
    ),
    Fault::new(
        "burst",
        "bursts of 400 datagrams four times per second, into a buffer that holds 92",
        Expected::Loss(Stage::Socket, "burst"),
        |scene| {
            scene.read(&Reader::busy(scene.target(), QUICK))?;
            scene.send_to(scene.target(), SIZE, Pace { rate: 1600, burst: 400 })
        },
    ),
    Fault::new(
        "starved",
        "other threads with a higher priority occupy the reader's CPU",
        Expected::Loss(Stage::Socket, "starved"),
        |scene| {
            let reader = Reader::busy(scene.target(), QUICK);
            scene.keep_busy(CPU, 2);
            let reader = Reader { cpu: Some(CPU), ..reader };
            scene.read_at(Place::Receiver, &reader, &["nice", "-n", "39"])?;
            scene.send_to(scene.target(), SIZE, Pace::even(4000))
        },
    ),
    Fault::new(
        "stopped",
        "the reader is stopped by SIGSTOP",
        Expected::Loss(Stage::Socket, "starved"),
        |scene| {
            let reader = scene.read(&Reader::busy(scene.target(), QUICK))?;
            scene.send_to(scene.target(), SIZE, Pace::even(2000))?;
            scene.stop(reader)
        },
    ),
    Fault::new(
        "throttled",
        "the reader's cgroup may run for 2 ms in 100 ms",
        Expected::Loss(Stage::Socket, "starved"),
        |scene| {
            let reader = scene.read(&Reader::busy(scene.target(), QUICK))?;
            scene.throttle(reader, 2000)?;
            scene.send_to(scene.target(), SIZE, Pace::even(4000))
        },
    ),
    Fault::new(
        "hot-socket",
        "one of four sockets on the port gets most datagrams",
        Expected::Loss(Stage::Socket, "hot_socket"),
        hot_socket,
    ),
];

/// Time that a slow reader spends on each datagram.
const SLOW: Duration = Duration::from_micros(200);
/// Time that a sufficiently fast reader spends on each datagram.
const QUICK: Duration = Duration::from_micros(20);
const SIZE: usize = 1200;
/// The CPU of a reader that gets too little CPU time.
const CPU: usize = 1;
/// Number of flows in addition to the large one.
const SMALL_FLOWS: usize = 8;

fn hot_socket(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.read(&Reader { sockets: 4, ..Reader::busy(scene.target(), SLOW) })?;
    for _ in 0..SMALL_FLOWS {
        scene.send_to(scene.target(), SIZE, Pace::even(50))?;
    }
    scene.send_to(scene.target(), SIZE, Pace::even(10_000))
}
