//! Tests of services that respond to real clients.

mod exchanges;
mod failures;
mod limits;
mod support;
mod tcp;
mod upgrades;
