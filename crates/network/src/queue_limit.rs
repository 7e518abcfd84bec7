/// The capacity of a queue, excluding the datagram on the wire or being processed. Datagrams beyond
/// the limit are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLimit {
    /// The maximum number of datagrams; `None` for no limit.
    pub packets: Option<usize>,
    /// The maximum number of bytes, [`Conditions::overhead`](crate::Conditions::overhead) included;
    /// `None` for no limit.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// Returns whether a datagram of `size` bytes may be added to `packets` waiting datagrams of
    /// `bytes` in total.
    pub(crate) fn has_room(&self, packets: usize, bytes: u64, size: u64) -> bool {
        self.packets.is_none_or(|limit| packets < limit)
            && self.bytes.is_none_or(|limit| bytes.saturating_add(size) <= limit)
    }
}
