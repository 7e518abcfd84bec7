//! TCP tunnels (draft-ietf-httpbis-connect-tcp §3): conversion between DATA and FINAL_DATA capsules
//! and a byte stream.

use core::fmt;

use bytes::Bytes;
use clearway_http3::Code;

use crate::capsule::{CapsuleReader, put_varint};

/// The type of the DATA capsule: the value of DATA-12, for interoperability tests.
pub const DATA_CAPSULE: u64 = 0x2028_d7f2;

/// The type of the FINAL_DATA capsule: the value of FINAL_DATA-12, for interoperability tests.
pub const FINAL_DATA_CAPSULE: u64 = 0x2028_d7f3;

/// The result of content from the peer of a TCP tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TcpReceived {
    /// Write these bytes to the TCP connection.
    Data(Bytes),
    /// Send a TCP FIN: everything has been written.
    Fin,
}

/// The reason why a TCP tunnel ended abruptly. The TCP connection should be reset
/// (draft-ietf-httpbis-connect-tcp §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TcpError {
    /// The peer sent data after FINAL_DATA.
    DataAfterFinal,
    /// The peer's stream ended inside a capsule.
    TruncatedCapsule,
    /// The peer's stream ended without FINAL_DATA: data may be missing.
    NoFinalData,
}

impl TcpError {
    /// Returns the code to reset the stream with.
    pub const fn code(self) -> Code {
        match self {
            Self::DataAfterFinal | Self::TruncatedCapsule => Code::MESSAGE_ERROR,
            Self::NoFinalData => Code::CONNECT_ERROR,
        }
    }
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DataAfterFinal => "the peer sent data after it had closed the TCP stream",
            Self::TruncatedCapsule => "the peer's stream ended inside a capsule",
            Self::NoFinalData => {
                "the peer's stream ended before the TCP stream was closed; data may be missing"
            }
        })
    }
}

impl core::error::Error for TcpError {}

/// The receiving part of a TCP tunnel. Data is passed on before its capsule is complete, and is not
/// copied.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    reader: CapsuleReader,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    /// FINAL_DATA is complete; its last bytes have been returned, but not [`TcpReceived::Fin`].
    FinPending,
    Closed,
}

impl Default for TcpReceiver {
    fn default() -> Self {
        Self { reader: CapsuleReader::new(), state: State::Open }
    }
}

impl TcpReceiver {
    /// Removes the next data from the start of `content`; `None` when `content` is exhausted.
    /// Capsules of other types are skipped.
    ///
    /// # Errors
    /// [`TcpError::DataAfterFinal`] if there is data after the end.
    pub fn receive(&mut self, content: &mut Bytes) -> Result<Option<TcpReceived>, TcpError> {
        loop {
            if self.state == State::FinPending {
                self.state = State::Closed;
                return Ok(Some(TcpReceived::Fin));
            }
            let Some(piece) = self.reader.next(content) else { return Ok(None) };
            if ![DATA_CAPSULE, FINAL_DATA_CAPSULE].contains(&piece.capsule_type) {
                continue;
            }
            if self.state == State::Closed {
                return Err(TcpError::DataAfterFinal);
            }
            if piece.is_last && piece.capsule_type == FINAL_DATA_CAPSULE {
                self.state = State::FinPending;
            }
            if !piece.data.is_empty() {
                return Ok(Some(TcpReceived::Data(piece.data)));
            }
        }
    }

    /// Checks that the peer's stream may end here.
    ///
    /// # Errors
    /// If the stream ends inside a capsule or without FINAL_DATA.
    pub fn finish(&self) -> Result<(), TcpError> {
        match (self.reader.is_between_capsules(), self.state) {
            (false, _) => Err(TcpError::TruncatedCapsule),
            (true, State::Open) => Err(TcpError::NoFinalData),
            (true, State::FinPending | State::Closed) => Ok(()),
        }
    }
}

/// Returns the header of a DATA capsule; `length` bytes of data must follow it.
pub fn data_header(length: usize) -> Bytes {
    header(DATA_CAPSULE, length)
}

/// Returns an empty FINAL_DATA capsule, which reports a TCP FIN. No data may follow.
pub fn final_data() -> Bytes {
    header(FINAL_DATA_CAPSULE, 0)
}

fn header(capsule_type: u64, length: usize) -> Bytes {
    let mut header = Vec::with_capacity(12);
    put_varint(&mut header, capsule_type);
    put_varint(&mut header, length as u64);
    header.into()
}

#[cfg(test)]
mod tests {
    use clearway_http3::Capsule;
    use proptest::prelude::*;

    use super::*;

    /// Returns the data in `content`, and the number of FINs.
    fn receive(content: &[u8], chunk: usize) -> (Vec<u8>, usize, Result<(), TcpError>) {
        let mut receiver = TcpReceiver::default();
        let (mut data, mut fins) = (Vec::new(), 0);
        for part in content.chunks(chunk) {
            let mut part = Bytes::copy_from_slice(part);
            loop {
                match receiver.receive(&mut part) {
                    Ok(Some(TcpReceived::Data(bytes))) => data.extend_from_slice(&bytes),
                    Ok(Some(TcpReceived::Fin)) => fins += 1,
                    Ok(None) => break,
                    Err(error) => return (data, fins, Err(error)),
                }
            }
        }
        (data, fins, receiver.finish())
    }

    /// Tests the requirements of draft-ietf-httpbis-connect-tcp §3.
    #[test]
    fn section_3_data_and_its_end() {
        let data = [&data_header(3)[..], b"abc"].concat();
        let other = Capsule::encode(0x17, &[0; 100]);
        let last = Capsule::encode(FINAL_DATA_CAPSULE, b"def");
        let empty = data_header(0);
        for chunk in [1, 2, 5, 1000] {
            let content = [&data, &other[..], &empty, &last].concat();
            assert_eq!(receive(&content, chunk), (b"abcdef".to_vec(), 1, Ok(())));
            let content = [&data, &final_data()[..], &other].concat();
            assert_eq!(receive(&content, chunk), (b"abc".to_vec(), 1, Ok(())));
            let content = [&final_data()[..], &empty].concat();
            let expected = (vec![], 1, Err(TcpError::DataAfterFinal));
            assert_eq!(receive(&content, chunk), expected);
            assert_eq!(receive(&data, chunk).2, Err(TcpError::NoFinalData));
            assert_eq!(receive(&last[..6], chunk).2, Err(TcpError::TruncatedCapsule));
        }
        assert_eq!(TcpError::NoFinalData.code(), Code::CONNECT_ERROR);
        assert_eq!(TcpError::DataAfterFinal.code(), Code::MESSAGE_ERROR);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            parts in proptest::collection::vec((0usize..4, 0usize..20), 0..10),
            chunk in 1usize..30,
        ) {
            let types = [DATA_CAPSULE, FINAL_DATA_CAPSULE, 0, 0x17];
            let content: Vec<u8> = parts
                .into_iter()
                .flat_map(|(kind, length)| Capsule::encode(types[kind], &vec![7; length]))
                .collect();
            prop_assert_eq!(receive(&content, chunk), receive(&content, 10_000));
        }
    }
}
