use super::flow::ReceiveWindow;
use super::receiving_part::ReceivingPart;
use super::sending_part::SendingPart;

/// Maximum number of parts of each kind to keep. A batch of datagrams rarely ends more streams and
/// opens new ones in their place.
const MOST: usize = 64;

/// Memory of the parts of ended streams, for reuse by the streams opened next: a stream that
/// carries a small request and its response then needs no allocations.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "streams hold their parts in boxes, which are kept for reuse")]
pub(super) struct Spare {
    sending: Vec<Box<SendingPart>>,
    receiving: Vec<Box<ReceivingPart>>,
}

impl Spare {
    /// Returns a sending part with a limit of `limit` bytes.
    pub(super) fn sending_part(&mut self, limit: u64) -> Box<SendingPart> {
        match self.sending.pop() {
            Some(mut part) => {
                part.renew(limit);
                part
            }
            None => Box::new(SendingPart::new(limit)),
        }
    }

    /// Returns a receiving part whose peer is limited by `window`.
    pub(super) fn receiving_part(&mut self, window: ReceiveWindow) -> Box<ReceivingPart> {
        match self.receiving.pop() {
            Some(mut part) => {
                part.renew(window);
                part
            }
            None => Box::new(ReceivingPart::new(window)),
        }
    }

    /// Keeps the memory of the parts of an ended stream, but none of their data.
    pub(super) fn keep(
        &mut self,
        send: Option<Box<SendingPart>>,
        receive: Option<Box<ReceivingPart>>,
    ) {
        if let Some(mut part) = send.filter(|_| self.sending.len() < MOST) {
            part.empty();
            self.sending.push(part);
        }
        if let Some(mut part) = receive.filter(|_| self.receiving.len() < MOST) {
            part.empty();
            self.receiving.push(part);
        }
    }

    /// Frees all memory.
    pub(super) fn compact(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use clearway_wire::VarInt;

    use super::*;

    /// A reused part equals a new one, regardless of its history.
    #[test]
    fn a_part_that_is_used_again_is_like_a_new_one() {
        let mut spare = Spare::default();
        let mut part = spare.sending_part(10);
        part.write(Bytes::from_static(b"hello"));
        part.finish();
        part.reset_at(VarInt::from_u32(7), 2);
        part.on_lost(0..2, true);
        let window = || ReceiveWindow::new(100, 1000);
        let mut receiving = spare.receiving_part(window());
        receiving.awaits_data = false;
        spare.keep(Some(part), Some(receiving));
        let (part, receiving) = (spare.sending_part(20), spare.receiving_part(window()));
        assert_eq!(format!("{part:?}"), format!("{:?}", SendingPart::new(20)));
        assert_eq!(format!("{receiving:?}"), format!("{:?}", ReceivingPart::new(window())));
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut spare = Spare::default();
        for _ in 0..MOST + 10 {
            spare.keep(Some(Box::new(SendingPart::new(0))), None);
        }
        assert_eq!((spare.sending.len(), spare.receiving.len()), (MOST, 0));
    }
}
