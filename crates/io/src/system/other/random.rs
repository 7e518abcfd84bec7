use std::io;

/// Returns a seed from the operating system's secure random source, for
/// [`Random::from_seed`](clearway_units::Random::from_seed).
///
/// # Errors
/// Fails if the operating system cannot provide a seed.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}
