use std::collections::BTreeMap;

/// Maximum number of out-of-order bytes to buffer.
const MAX_OUT_OF_ORDER: usize = 256 << 10;
/// Maximum number of out-of-order pieces to buffer.
const MAX_PIECES: usize = 1024;

/// Reassembles the bytes of a stream in order.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The offset up to which everything has arrived.
    next: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
    kept: usize,
}

impl Reassembly {
    /// Returns the number of bytes that have arrived in order.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Adds `data` at `offset`, and passes everything that is now in order to `deliver`. Returns
    /// whether the data was accepted; data beyond the limits is dropped.
    pub(super) fn insert(
        &mut self,
        offset: u64,
        data: &[u8],
        mut deliver: impl FnMut(&[u8]),
    ) -> bool {
        let end = offset.saturating_add(data.len() as u64);
        if offset > self.next {
            let is_too_much = self.kept.saturating_add(data.len()) > MAX_OUT_OF_ORDER;
            if is_too_much || self.pieces.len() >= MAX_PIECES {
                return false;
            }
            if self.pieces.get(&offset).is_none_or(|piece| piece.len() < data.len()) {
                let before = self.pieces.insert(offset, data.to_vec());
                self.kept = self.kept.saturating_add(data.len());
                self.kept = self.kept.saturating_sub(before.map_or(0, |piece| piece.len()));
            }
            return true;
        }
        if end > self.next {
            self.advance(offset, data, &mut deliver);
        }
        while let Some(piece) = self.pieces.first_entry() {
            if *piece.key() > self.next {
                break;
            }
            let (offset, data) = piece.remove_entry();
            self.kept = self.kept.saturating_sub(data.len());
            self.advance(offset, &data, &mut deliver);
        }
        true
    }

    fn advance(&mut self, offset: u64, data: &[u8], deliver: &mut impl FnMut(&[u8])) {
        let skip = usize::try_from(self.next.saturating_sub(offset)).unwrap_or(usize::MAX);
        if let Some(new) = data.get(skip..).filter(|new| !new.is_empty()) {
            deliver(new);
            self.next = self.next.saturating_add(new.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_order(pieces in prop::collection::vec((0_usize..60, 1_usize..20), 0..60)) {
            let all: Vec<u8> = (0..100).collect();
            let (mut reassembly, mut seen) = (Reassembly::default(), [false; 100]);
            let mut delivered = Vec::new();
            for (offset, length) in pieces {
                let data = &all[offset..offset + length];
                reassembly.insert(offset as u64, data, |bytes| delivered.extend_from_slice(bytes));
                seen[offset..offset + length].fill(true);
            }
            let contiguous = seen.iter().take_while(|it| **it).count();
            prop_assert_eq!(&delivered, &all[..contiguous]);
            prop_assert_eq!(reassembly.next(), contiguous as u64);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut reassembly = Reassembly::default();
        let piece = vec![0; 1000];
        let kept = (1..1000).filter(|i| reassembly.insert(i * 2000, &piece, |_| {})).count();
        assert!(kept <= 263, "{kept}");
    }
}
