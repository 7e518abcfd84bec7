//! Tests against other QUIC stacks are in `tests/`.
