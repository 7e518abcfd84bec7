//! Reads captured packets and decrypts them with a key log. This module shares no code with the
//! stack under test.

mod bytes;
mod connection;
mod frames;
mod header;
mod ip;
mod key_log;
mod keys;
pub(crate) mod pcap;
mod sender;
mod tls;
mod trace;

pub(crate) use connection::Connection;
#[cfg(test)]
pub(crate) use connection::Opened;
pub(crate) use frames::Frames;
pub(crate) use header::{Kind, V1, V2};
pub(crate) use key_log::KeyLog;
pub(crate) use sender::Sender;
pub(crate) use trace::{Packet, Trace};
