//! Stateless resets, and who can have made them (RFC 9000 §10.3).

use clearway_wire::ResetToken;

type Token = [u8; ResetToken::LEN];

/// The stateless reset tokens of the peer, and the last bytes of the last received datagram.
#[derive(Debug, Default)]
pub(in crate::checker) struct Resets {
    given: Vec<Token>,
    last: Option<Token>,
}

impl Resets {
    /// The peer gave a token, in its transport parameters or with a connection ID.
    pub(in crate::checker) fn on_token(&mut self, token: &Token) {
        if !self.given.contains(token) {
            self.given.push(*token);
        }
    }

    /// A datagram came.
    pub(in crate::checker) fn on_delivered(&mut self, datagram: &[u8]) {
        self.last = datagram.last_chunk().copied();
    }

    /// The datagram that came last was taken for a stateless reset.
    ///
    /// # Errors
    /// It does not end with a token that the peer gave.
    pub(in crate::checker) fn check(&self) -> Result<(), String> {
        match self.last {
            Some(token) if self.given.contains(&token) => Ok(()),
            _ => Err("a stateless reset was accepted with a token that the peer did not issue"
                .to_owned()),
        }
    }
}
