use core::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::StreamErrorIncoming;

use crate::error::read_error;
use crate::frame_cutter::FrameCutter;
use crate::{error_code, stream_id};

/// Maximum number of bytes that are taken from the stream at once.
const READ_LIMIT: usize = 64 << 10;

/// The receiving half of a stream.
///
/// Dropping it before its end was read stops the stream with code 0 (STOP_SENDING).
#[derive(Debug)]
pub struct RecvStream {
    stream: clearway::RecvStream,
    cutter: FrameCutter,
    /// What was taken from the stream and not passed to h3 yet.
    received: Bytes,
}

impl RecvStream {
    pub(crate) fn new(stream: clearway::RecvStream, cutter: FrameCutter) -> Self {
        Self { stream, cutter, received: Bytes::new() }
    }

    /// Passes everything on as it arrives.
    pub(crate) fn expect_no_frames(&mut self) {
        self.cutter = FrameCutter::unframed();
    }
}

impl h3::quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            if self.received.is_empty() {
                let read = ready!(self.stream.poll_read_chunk(context, READ_LIMIT));
                match read.map_err(read_error)? {
                    Some(received) => self.received = received,
                    None => return Poll::Ready(Ok(self.cutter.finish())),
                }
            }
            match self.cutter.next(&mut self.received) {
                Ok(Some(piece)) => return Poll::Ready(Ok(Some(piece))),
                Ok(None) => {}
                Err(error) => {
                    self.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
                    return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(error))));
                }
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        self.received = Bytes::new();
        // Fails if the stream was already stopped.
        let _ = self.stream.stop(error_code(code));
    }

    fn recv_id(&self) -> h3::quic::StreamId {
        stream_id(self.stream.id())
    }
}
