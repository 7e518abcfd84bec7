/// How much may wait, not counting the datagram on the wire or being processed. Datagrams beyond
/// the limit are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLimit {
    /// Datagrams; `None` for any number.
    pub packets: Option<usize>,
    /// Bytes, [`Conditions::overhead`](crate::Conditions::overhead) included; `None` for any number.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// Whether a datagram of `size` bytes may be added to `packets` waiting datagrams of `bytes` in total.
    pub(crate) fn has_room(&self, packets: usize, bytes: u64, size: u64) -> bool {
        self.packets.is_none_or(|limit| packets < limit)
            && self.bytes.is_none_or(|limit| bytes.saturating_add(size) <= limit)
    }
}
