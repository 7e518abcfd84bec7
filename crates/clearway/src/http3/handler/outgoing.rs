//! Response bodies that are being sent.

use bytes::{Buf, Bytes};
use clearway_http3::SendError;
use http::HeaderMap;

use super::super::driver::Turn;
use super::{BodySource, CHUNK};

/// Maximum size in bytes of a first piece of content after which the source is polled again
/// immediately.
const SHORT: usize = 16 << 10;

/// A body that is being sent.
pub(super) struct Outgoing {
    source: Box<dyn BodySource>,
    /// Content that was pulled from the source but not yet accepted by the transport.
    rest: Bytes,
    /// Content that was pulled after `rest`.
    following: Bytes,
    /// Set when the source has ended, with its trailers.
    end: Option<Option<HeaderMap>>,
}

impl Outgoing {
    /// Pulls the first content and, if that is short, checks whether more follows.
    pub(super) fn new(source: Box<dyn BodySource>) -> Self {
        let mut body = Self { source, rest: Bytes::new(), following: Bytes::new(), end: None };
        body.rest = body.next();
        if body.end.is_none() && body.rest.len() <= SHORT {
            body.following = body.next();
        }
        body
    }

    /// Returns the first content, and whether the message ends with it, without trailers.
    pub(super) fn first(&self) -> (Bytes, bool) {
        (self.rest.clone(), matches!(self.end, Some(None)) && self.following.is_empty())
    }

    /// Removes the bytes of the first content that the transport has accepted.
    pub(super) fn advance(&mut self, taken: usize) {
        self.rest.advance(taken.min(self.rest.len()));
    }

    /// Returns the number of bytes that were pulled but not yet accepted by the transport.
    pub(super) fn held_bytes(&self) -> usize {
        self.rest.len() + self.following.len()
    }

    /// Returns the next content. At the end, records the end and returns empty content.
    fn next(&mut self) -> Bytes {
        if !self.following.is_empty() {
            return core::mem::take(&mut self.following);
        }
        if self.end.is_some() {
            return Bytes::new();
        }
        let next = self.source.next(CHUNK).unwrap_or_default();
        if next.is_empty() {
            self.end = Some(self.source.trailers());
        }
        next
    }

    /// Sends as much content as the transport accepts. Returns whether all of it was sent.
    pub(super) fn pull(&mut self, turn: &mut Turn<'_>, stream: u64) -> Result<bool, SendError> {
        loop {
            if self.rest.is_empty() {
                self.rest = self.next();
                if self.rest.is_empty() {
                    break;
                }
            }
            let taken = turn.send_body(stream, self.rest.clone())?;
            self.advance(taken);
            if !self.rest.is_empty() {
                return Ok(false);
            }
        }
        turn.finish(stream, self.end.take().flatten().as_ref())?;
        Ok(true)
    }
}
