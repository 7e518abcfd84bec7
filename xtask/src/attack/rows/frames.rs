//! Floods of single kinds of frames on an established connection.

use std::time::Duration;

use super::{Row, Target, USUAL};
use crate::attack::endpoint::{Endpoint, PAYLOAD};
use crate::attack::scene::Scene;

/// The number of datagrams of a flood.
const MANY: u64 = 30_000;
/// How many datagrams are sent before what has arrived is read.
const BATCH: u64 = 32;
/// The pause after a batch: without one, most of a flood would only fill the receive buffer of the target.
const PAUSE: Duration = Duration::from_micros(500);

pub(super) fn rows() -> Vec<Row> {
    vec![Row {
        name: "ping-flood",
        target: Target::Serve(&[]),
        is_quick: true,
        bound: USUAL,
        drive: ping,
    }]
}

/// Sends datagrams whose payloads `payload` makes, until the target closes the connection.
fn flood(
    endpoint: &mut Endpoint,
    count: u64,
    mut payload: impl FnMut(u64) -> Vec<u8>,
) -> Result<(), String> {
    for number in 0..count {
        endpoint.send(&payload(number));
        if number % BATCH == 0 {
            endpoint.pump(PAUSE)?;
            crate::waiting::check_interrupt()?;
        }
        if endpoint.closed.is_some() {
            break;
        }
    }
    Ok(())
}

fn ping(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut attacker = scene.attacker()?;
    flood(&mut attacker, MANY, |_| vec![1; PAYLOAD])
}
