//! Counts clients that have begun but not completed a handshake, and determines whether additional
//! clients must validate their address first (RFC 9000 §8.1.2). Anyone can begin handshakes from
//! spoofed addresses; if the server responds with a Retry packet, these cost neither memory nor a
//! signature.

/// The number of clients whose handshake is not complete: connections, and clients whose handshake
/// has not begun yet.
#[derive(Debug)]
pub(super) struct HalfOpen {
    count: usize,
    /// Number of incomplete handshakes at or above which new clients must validate their address.
    limit: usize,
    /// Set while clients must validate their address: until the number of incomplete handshakes has
    /// fallen to half of the limit.
    is_limiting: bool,
}

impl HalfOpen {
    pub(super) fn new(limit: usize) -> Self {
        Self { count: 0, limit, is_limiting: limit == 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether clients must validate their address.
    pub(super) fn is_limiting(&self) -> bool {
        self.is_limiting
    }

    /// Counts a new client, which waits until its handshake begins.
    pub(super) fn begin(&mut self) {
        self.count += 1;
        if self.count >= self.limit && !self.is_limiting {
            self.is_limiting = true;
            let count = self.count;
            tracing::warn!(
                count,
                "many handshakes are incomplete: validating the addresses of new clients with Retry"
            );
        }
    }

    /// Stops counting a client: its handshake is complete, its connection is gone, or it was not
    /// accepted.
    pub(super) fn end(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.is_limiting && self.limit > 0 && self.count <= self.limit / 2 {
            self.is_limiting = false;
            tracing::info!("fewer handshakes are incomplete: no longer sending Retry");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_the_limit_and_ends_at_half_of_it() {
        let mut half_open = HalfOpen::new(4);
        let mut seen = Vec::new();
        for begins in [true, true, true, true, true, false, false, false, true, true] {
            if begins {
                half_open.begin();
            } else {
                half_open.end();
            }
            seen.push((half_open.count(), half_open.is_limiting()));
        }
        let without = [(1, false), (2, false), (3, false)];
        let with = [(4, true), (5, true), (4, true), (3, true)];
        assert_eq!(seen, [&without[..], &with, &[(2, false), (3, false), (4, true)]].concat());
    }

    #[test]
    fn a_limit_of_zero_is_always_exceeded() {
        let mut half_open = HalfOpen::new(0);
        assert!(half_open.is_limiting());
        half_open.begin();
        half_open.end();
        assert!(half_open.is_limiting());
    }
}
