//! The programs around the load balancer in `cargo xtask bench balance`: the clients, the servers,
//! and the simple forwarding loops with which the balancer is compared. Clients only send, and
//! servers only receive.

mod datagram;
mod naive;
mod sink;
mod source;

use clap::Subcommand;

pub(crate) use self::datagram::server_id;
use crate::Outcome;

/// One of the programs.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Send datagrams of many clients, with short headers and QUIC-LB connection IDs.
    Source(source::SourceOptions),
    /// Receive as several servers, and print what arrived for each line of standard input.
    Sink(sink::SinkOptions),
    /// Forward datagrams in one thread, singly or in batches (recvmmsg), without GRO and GSO.
    Loop(naive::LoopOptions),
}

pub(crate) fn run(part: &Part) -> Outcome {
    match part {
        Part::Source(options) => source::run(options),
        Part::Sink(options) => sink::run(options),
        Part::Loop(options) => naive::run(options),
    }
}
