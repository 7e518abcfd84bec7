//! Closing: the reason reaches the peer, and `wait_idle` returns when nothing is left.
