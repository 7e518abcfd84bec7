//! Measures the current speed of this machine, because the time bounds are stated for a reference
//! machine.

use std::net::UdpSocket;
use std::time::Duration;

use clearway_wire::ConnectionId;
use rustix::time::{ClockId, clock_gettime};

use super::endpoint::PAYLOAD;
use super::protection::{self, NUMBER_LEN, TAG_LEN};

/// Number of datagrams per sample.
const DATAGRAMS: u64 = 2_000;
/// Number of samples. The median is used, so that an interrupt does not matter.
const SAMPLES: usize = 5;
/// CPU time of a sample on the reference machine, for which the bounds of attacks are stated: two
/// idle cores of a server from 2023.
const REFERENCE: Duration = Duration::from_micros(3_200);

/// Returns how many times slower programs are here than on the reference machine. At least 1: on a
/// faster machine the bounds are the same.
///
/// Measures the operations on which targets spend their time: packet protection, and sending and
/// receiving in the kernel.
///
/// # Errors
/// Returns an error if the kernel rejects a socket.
pub(super) fn slowness() -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("measuring the speed of the machine: {error}");
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    socket.connect(socket.local_addr().map_err(failed)?).map_err(failed)?;
    let mut samples = [Duration::ZERO; SAMPLES];
    for sample in &mut samples {
        let began = processor_time();
        work(&socket).map_err(failed)?;
        *sample = processor_time().saturating_sub(began);
    }
    samples.sort_unstable();
    Ok(relative(samples[SAMPLES / 2]))
}

fn relative(sample: Duration) -> f64 {
    (sample.as_secs_f64() / REFERENCE.as_secs_f64()).max(1.0)
}

/// Returns the CPU time used by this thread, which other programs do not affect.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Protects, sends and receives datagrams.
fn work(socket: &UdpSocket) -> std::io::Result<()> {
    let keys = protection::initial_keys(&ConnectionId::default(), true);
    let head = 1 + NUMBER_LEN;
    let mut received = vec![0; head + PAYLOAD + TAG_LEN];
    for number in 0..DATAGRAMS {
        let mut packet = vec![0; head + PAYLOAD + TAG_LEN];
        protection::protect(&keys.local, &mut packet, 1, head + PAYLOAD, number);
        socket.send(&packet)?;
        socket.recv(&mut received)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_with_the_time_that_the_machine_takes() {
        assert!((relative(REFERENCE / 2) - 1.0).abs() < 1e-9);
        assert!((relative(REFERENCE * 3) - 3.0).abs() < 1e-9);
        let measured = slowness().unwrap();
        assert!((1.0..1_000.0).contains(&measured), "{measured}");
    }
}
