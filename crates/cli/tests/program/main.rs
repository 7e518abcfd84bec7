//! The program as its users have it.

mod addresses;
mod bad_input;
mod balance;
mod balance_restart;
mod certificates;
mod demo;
mod doctor;
mod hot_restart;
mod http3;
mod interrupted;
mod lab;
mod link;
mod many;
mod metrics;
mod migration;
mod page;
mod pictures;
mod quic_lb;
mod refusals;
mod serve_get;
mod shipped;
mod stalled;
mod support;
mod traces;
mod unanswered;
mod view;
