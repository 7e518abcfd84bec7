//! What errors say.
