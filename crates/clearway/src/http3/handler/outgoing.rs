//! Bodies that are sent.

use bytes::{Buf, Bytes};
use clearway_http3::SendError;
use http::HeaderMap;

use super::super::driver::Turn;
use super::{BodySource, CHUNK};

/// If the first content has at most this many bytes, the source is polled again at once.
const SHORT: usize = 16 << 10;

/// A body that is being sent.
pub(super) struct Outgoing {
    source: Box<dyn BodySource>,
    /// What was pulled from the source and the transport has not taken.
    rest: Bytes,
    /// What was pulled after it.
    following: Bytes,
    /// The source has ended, with these trailers.
    end: Option<Option<HeaderMap>>,
}

impl Outgoing {
    /// Pulls the first content, and if it is short, finds out whether more follows.
    pub(super) fn new(source: Box<dyn BodySource>) -> Self {
        let mut body = Self { source, rest: Bytes::new(), following: Bytes::new(), end: None };
        body.rest = body.next();
        if body.end.is_none() && body.rest.len() <= SHORT {
            body.following = body.next();
        }
        body
    }

    /// The first content, and whether nothing follows it, not even trailers.
    pub(super) fn first(&self) -> (Bytes, bool) {
        (self.rest.clone(), matches!(self.end, Some(None)) && self.following.is_empty())
    }

    /// The transport has taken so many bytes of the content that was pulled first.
    pub(super) fn advance(&mut self, taken: usize) {
        self.rest.advance(taken.min(self.rest.len()));
    }

    /// How many bytes were pulled and not taken by the transport.
    pub(super) fn held_bytes(&self) -> usize {
        self.rest.len() + self.following.len()
    }

    /// The next content; none at the end, which is noted.
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

    /// Sends content, as far as the transport accepts it. Returns whether everything was sent.
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
