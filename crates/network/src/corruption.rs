use clearway_units::Random;

/// Position of the byte to change in a datagram, and the bits to flip in this byte.
pub(crate) type BitChange = (usize, u8);

/// Draws a random change to one of the first `within` bytes of a datagram of `length` bytes, or to
/// any byte if `within` is `None`.
pub(crate) fn change(length: usize, within: Option<usize>, random: &mut Random) -> BitChange {
    let reach = within.map_or(length, |within| within.min(length));
    let position = random.below(u64::try_from(reach).unwrap_or(u64::MAX));
    // Never zero: a corrupt byte must differ from the original.
    let flip = random.below(u64::from(u8::MAX)).saturating_add(1);
    (usize::try_from(position).unwrap_or(0), u8::try_from(flip).unwrap_or(u8::MAX))
}
