/// The maximum lead of datagrams over streams, or of streams over datagrams, in bytes. Traffic sent
/// while the other kind had nothing to send need not be compensated in full.
const MOST_AHEAD: i64 = 64 << 10;

/// The number of bytes by which unreliable datagrams are ahead of streams since both have had data
/// to send. Neither starves the other (RFC 9221 §5.4): whichever is behind fills a packet first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Shares {
    datagrams_ahead: i64,
}

impl Shares {
    /// Returns whether DATAGRAM frames are ahead, so that STREAM frames fill the packet first.
    pub(super) fn is_datagrams_ahead(self) -> bool {
        self.datagrams_ahead > 0
    }

    /// Counts the bytes of datagrams and streams in a filled packet.
    pub(super) fn note(&mut self, datagrams: usize, streams: usize) {
        let signed = |bytes| i64::try_from(bytes).unwrap_or(MOST_AHEAD);
        self.datagrams_ahead = self
            .datagrams_ahead
            .saturating_add(signed(datagrams))
            .saturating_sub(signed(streams))
            .clamp(-MOST_AHEAD, MOST_AHEAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_behind_is_first() {
        let mut shares = Shares::default();
        assert!(!shares.is_datagrams_ahead());
        shares.note(1000, 100);
        assert!(shares.is_datagrams_ahead());
        shares.note(0, 1100);
        assert!(!shares.is_datagrams_ahead());
    }

    #[test]
    fn a_lead_is_bounded() {
        let mut shares = Shares::default();
        for _ in 0..1000 {
            shares.note(0, 1000);
        }
        for _ in 0..66 {
            shares.note(1000, 0);
        }
        assert!(shares.is_datagrams_ahead());
    }
}
