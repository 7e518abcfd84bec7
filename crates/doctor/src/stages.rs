//! The stages, each with its counters: which of them are losses, and what they exclude.

pub(crate) mod application;
pub(crate) mod conntrack;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod ip;
pub(crate) mod reader;
pub(crate) mod sending;
pub(crate) mod socket;
pub(crate) mod softnet;
pub(crate) mod udp;
pub(crate) mod xdp;
