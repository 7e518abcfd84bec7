//! Reports where a host loses datagrams, and why.
//!
//! The input is [`Snapshot`]s of kernel counters, the output is a [`Verdict`]. The conversion reads
//! no file, opens no socket and uses no clock, so that every fault can be tested. On Linux, a
//! `Collector` takes the snapshots.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod actions;
mod change;
#[cfg(target_os = "linux")]
mod collect;
mod devices;
mod diagnose;
mod examination;
mod floor;
mod numbers;
mod passing;
mod queue;
mod report;
mod saved;
mod scope;
mod snapshot;
mod span;
mod stages;
mod verdict;

#[cfg(test)]
mod agreement_tests;
#[cfg(test)]
mod floor_tests;
#[cfg(test)]
mod testing;

#[cfg(target_os = "linux")]
pub use collect::Collector;
pub use diagnose::{diagnose, diagnose_for};
pub use passing::passing;
pub use report::Mark;
pub use saved::{SavedError, decode, encode};
pub use scope::Scope;
pub use snapshot::{
    Application, Backlog, Conntrack, Counters, Device, Driver, Family, Memory, Missing, Paths,
    Pressure, Process, Protocols, Qdisc, Reading, RunState, Snapshot, Socket, SocketKey,
    SoftnetCpu, Thread, Throttling, XdpSocket, XdpSockets,
};
pub use verdict::{
    Action, Cause, Certainty, Evidence, Finding, Outcome, Queue, Stage, Starvation, Unseen, Verdict,
};
