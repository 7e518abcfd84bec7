use core::task::{Context, Poll};

use bytes::Bytes;
use h3::quic::StreamErrorIncoming;

use crate::error::read_error;
use crate::{error_code, stream_id};

/// Maximum number of bytes that are taken from the stream at once.
const READ_LIMIT: usize = 64 << 10;

/// The receiving half of a stream.
///
/// If it is dropped before its end was read, the peer is asked to stop sending, with code 0.
#[derive(Debug)]
pub struct RecvStream(clearway::RecvStream);

impl RecvStream {
    pub(crate) fn new(stream: clearway::RecvStream) -> Self {
        Self(stream)
    }
}

impl h3::quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_read_chunk(context, READ_LIMIT).map_err(read_error)
    }

    fn stop_sending(&mut self, code: u64) {
        // Fails if the stream was already stopped.
        let _ = self.0.stop(error_code(code));
    }

    fn recv_id(&self) -> h3::quic::StreamId {
        stream_id(self.0.id())
    }
}
