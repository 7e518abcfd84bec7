//! What becomes of responses that fail.
