use core::fmt;
use core::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use clearway::WriteError;
use h3::quic::{ConnectionErrorIncoming, SendStreamUnframed, StreamErrorIncoming, WriteBuf};

use crate::error::write_error;
use crate::{error_code, stream_id};

/// Maximum number of bytes of a frame that are copied at once.
const COPY_LIMIT: usize = 64 << 10;

/// The sending half of a stream.
///
/// If it is dropped before it is finished or reset, the stream is finished.
pub struct SendStream<B: Buf> {
    stream: clearway::SendStream,
    /// The frame to write.
    frame: Option<WriteBuf<B>>,
    /// A copied part of the frame that the stream has not accepted yet.
    part: Bytes,
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn new(stream: clearway::SendStream) -> Self {
        Self { stream, frame: None, part: Bytes::new() }
    }

    fn poll_write_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        while let Some(frame) = &mut self.frame {
            if self.part.is_empty() {
                let length = frame.remaining().min(COPY_LIMIT);
                if length == 0 {
                    break;
                }
                // The header and the beginning of the payload are written together.
                self.part = frame.copy_to_bytes(length);
            }
            ready!(self.stream.poll_write_chunk(context, &mut self.part))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<B: Buf> h3::quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let written = ready!(self.poll_write_frame(context));
        // After an error nothing can be written: the next frame then fails with the same error.
        self.frame = None;
        self.part = Bytes::new();
        Poll::Ready(written.map_err(write_error))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() {
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: ConnectionErrorIncoming::InternalError(
                    "a frame was passed before the previous one was written".to_owned(),
                ),
            });
        }
        self.frame = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(context))?;
        let finished = self.stream.finish();
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, reset_code: u64) {
        // Fails if the stream was already reset.
        let _ = self.stream.reset(error_code(reset_code));
    }

    fn send_id(&self) -> h3::quic::StreamId {
        stream_id(self.stream.id())
    }
}

impl<B: Buf> SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        ready!(h3::quic::SendStream::poll_ready(self, context))?;
        if !buf.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        let written = ready!(self.stream.poll_write(context, buf.chunk())).map_err(write_error)?;
        buf.advance(written);
        Poll::Ready(Ok(written))
    }
}

impl<B: Buf> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SendStream").field(&self.stream).finish()
    }
}
