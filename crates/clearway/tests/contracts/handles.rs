//! Handles dropped at any point of their life leave nothing behind.
