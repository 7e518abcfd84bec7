use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns a seed from the operating system's secure random source, for
/// [`Random::from_seed`](clearway_units::Random::from_seed).
///
/// # Errors
/// Fails if the operating system cannot provide a seed.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        match getrandom(&mut seed[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(seed)
}
