//! The lab: congestion controllers inside the real stack, over simulated networks, in virtual time,
//! under a checker.
//!
//! A [`setup::Setup`] describes networks, endpoints and traffic; [`run::run`] simulates it with a controller and
//! a seed, the real transport and HTTP/3 at both ends. The same seed gives the same datagrams, byte for byte.

pub mod across;
pub mod application;
pub mod checker;
mod digest;
pub mod disturb;
pub mod end;
pub mod explore;
pub mod log;
pub mod report;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod setup;
pub mod stack;
pub mod sweep;
pub mod world;
