//! Tracks stateless resets and which endpoint could have sent them (RFC 9000 §10.3).

use clearway_wire::ResetToken;

type Token = [u8; ResetToken::LEN];

/// The peer's stateless reset tokens, and the last bytes of the most recently received datagram.
#[derive(Debug, Default)]
pub(in crate::checker) struct Resets {
    given: Vec<Token>,
    last: Option<Token>,
}

impl Resets {
    /// Records a stateless reset token from the peer's transport parameters or for one of its
    /// connection IDs.
    pub(in crate::checker) fn on_token(&mut self, token: &Token) {
        if !self.given.contains(token) {
            self.given.push(*token);
        }
    }

    /// Records a received datagram.
    pub(in crate::checker) fn on_delivered(&mut self, datagram: &[u8]) {
        self.last = datagram.last_chunk().copied();
    }

    /// Checks the most recently received datagram, which was accepted as a stateless reset.
    ///
    /// # Errors
    /// Returns an error if the datagram does not end with one of the peer's tokens.
    pub(in crate::checker) fn check(&self) -> Result<(), String> {
        match self.last {
            Some(token) if self.given.contains(&token) => Ok(()),
            _ => Err("a stateless reset was accepted with a token that the peer did not issue"
                .to_owned()),
        }
    }
}
