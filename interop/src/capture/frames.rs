//! The frames in a packet's payload (RFC 9000 §19, RFC 9221, draft-ietf-quic-ack-frequency).

use super::bytes::Bytes;

/// The properties of a packet's frames that the checks use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Frames {
    /// Offset and data of CRYPTO frames.
    pub(crate) crypto: Vec<(u64, Vec<u8>)>,
    pub(crate) path_challenges: Vec<[u8; 8]>,
    pub(crate) path_responses: Vec<[u8; 8]>,
    /// Whether the packet contains an ACK frame with ECN counts.
    pub(crate) acknowledges_ecn: bool,
    pub(crate) new_connection_ids: Vec<Vec<u8>>,
    /// The Largest Acknowledged and First ACK Range fields of ACK frames.
    pub(crate) acknowledged: Vec<(u64, u64)>,
    /// Stream ID, offset and length of STREAM frames.
    pub(crate) streams: Vec<(u64, u64, usize)>,
    /// The types of all other frames, except PADDING.
    pub(crate) others: Vec<u64>,
    /// The type of the first frame that this parser does not know. That frame and the rest of the
    /// packet are not parsed.
    pub(crate) unknown: Option<u64>,
}

impl Frames {
    /// Parses a decrypted payload; returns `None` if it is malformed.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let mut frames = Self::default();
        let mut bytes = Bytes::new(payload);
        while !bytes.is_empty() {
            let kind = bytes.variable()?;
            frames.read_one(kind, &mut bytes)?;
            if frames.unknown.is_some() {
                break;
            }
        }
        Some(frames)
    }

    fn read_one(&mut self, kind: u64, bytes: &mut Bytes<'_>) -> Option<()> {
        if !matches!(kind, 0x00 | 0x02 | 0x03 | 0x06 | 0x08..=0x0f | 0x18 | 0x1a | 0x1b) {
            self.others.push(kind);
        }
        match kind {
            // Frames without fields: PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK.
            0x00 | 0x01 | 0x1e | 0x1f => {}
            0x02 | 0x03 => self.acknowledgement(kind, bytes)?,
            0x06 => {
                let offset = bytes.variable()?;
                self.crypto.push((offset, bytes.counted()?.to_vec()));
            }
            // A NEW_TOKEN frame.
            0x07 => drop(bytes.counted()?),
            0x08..=0x0f => self.streams.push(stream(kind, bytes)?),
            0x18 => {
                numbers(bytes, 2)?;
                self.new_connection_ids.push(bytes.vector(1)?.to_vec());
                bytes.take(16)?;
            }
            0x1a => self.path_challenges.push(bytes.take(8)?.try_into().ok()?),
            0x1b => self.path_responses.push(bytes.take(8)?.try_into().ok()?),
            0x1c => {
                numbers(bytes, 2)?;
                bytes.counted()?;
            }
            0x1d => {
                numbers(bytes, 1)?;
                bytes.counted()?;
            }
            0x30 => drop(bytes.take(bytes.rest().len())?),
            0x31 => drop(bytes.counted()?),
            other => match count_of_numbers(other) {
                Some(count) => numbers(bytes, count)?,
                None => self.unknown = Some(other),
            },
        }
        Some(())
    }

    fn acknowledgement(&mut self, kind: u64, bytes: &mut Bytes<'_>) -> Option<()> {
        let largest = bytes.variable()?;
        numbers(bytes, 1)?;
        let ranges = bytes.variable()?;
        self.acknowledged.push((largest, bytes.variable()?));
        for _ in 0..ranges {
            numbers(bytes, 2)?;
        }
        if kind == 0x03 {
            self.acknowledges_ecn = true;
            numbers(bytes, 3)?;
        }
        Some(())
    }
}

/// Returns the number of variable-length integers in a frame of this type, if it contains nothing
/// else.
fn count_of_numbers(kind: u64) -> Option<usize> {
    match kind {
        // Frames with one integer: MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED,
        // RETIRE_CONNECTION_ID.
        0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => Some(1),
        // Frames with two integers: STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
        0x05 | 0x11 | 0x15 => Some(2),
        // A RESET_STREAM frame.
        0x04 => Some(3),
        // An ACK_FREQUENCY frame.
        0xaf => Some(4),
        _ => None,
    }
}

fn numbers(bytes: &mut Bytes<'_>, count: usize) -> Option<()> {
    (0..count).try_for_each(|_| bytes.variable().map(drop))
}

fn stream(kind: u64, bytes: &mut Bytes<'_>) -> Option<(u64, u64, usize)> {
    let (has_offset, has_length) = (kind & 0x04 != 0, kind & 0x02 != 0);
    let id = bytes.variable()?;
    let offset = if has_offset { bytes.variable()? } else { 0 };
    let data = match has_length {
        true => bytes.counted()?,
        false => bytes.take(bytes.rest().len())?,
    };
    Some((id, offset, data.len()))
}

#[cfg(test)]
mod tests {
    use super::Frames;

    #[test]
    fn frames_are_told_apart() {
        let payload = [
            &[0x00, 0x01, 0x03, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00][..],
            &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x1b, 8, 7, 6, 5, 4, 3, 2, 1],
            &[0x06, 0x02, 0x03, b'a', b'b', b'c'],
            &[0x0e, 0x00, 0x05, 0x01, 0xff],
            &[0x08, 0x04, 0xff, 0xff],
        ]
        .concat();
        let frames = Frames::read(&payload).unwrap();
        assert_eq!(frames.path_challenges, [[1, 2, 3, 4, 5, 6, 7, 8]]);
        assert_eq!(frames.path_responses, [[8, 7, 6, 5, 4, 3, 2, 1]]);
        assert_eq!(frames.crypto, [(2, b"abc".to_vec())]);
        assert!(frames.acknowledges_ecn);
        assert_eq!(frames.acknowledged, [(5, 0)]);
        assert_eq!(frames.streams, [(0, 5, 1), (4, 0, 2)]);
        assert_eq!((frames.others, frames.unknown), (vec![0x01], None));
        assert_eq!(Frames::read(&[0x1a, 1]), None);
        assert_eq!(Frames::read(&[0x40, 0x99, 7]).unwrap().unknown, Some(0x99));
    }
}
