//! The stages of the path, each with its counters: which of them count losses, and which other
//! losses they rule out.

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
