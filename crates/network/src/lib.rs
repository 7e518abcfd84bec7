//! What a network does to datagrams, as a pure state machine that takes the time.
