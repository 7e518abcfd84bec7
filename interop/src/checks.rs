//! The checks of each test, on the downloaded files and the packets captured on both sides.

mod amplification;
mod files;
mod handshake;
mod marks;
mod paths;
mod versions;

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;

use std::path::Path;

use crate::capture::{Kind, Sender, Trace};
use crate::catalogue::{Check, Test};

/// The output of a cell that the checks examine.
pub(crate) struct Evidence<'a> {
    pub(crate) test: &'a Test,
    /// The folders with the served files and with the downloaded files.
    pub(crate) root: &'a Path,
    pub(crate) downloads: &'a Path,
    /// The packets captured on the client's and on the server's side of the network.
    pub(crate) client: &'a Trace,
    pub(crate) server: &'a Trace,
    /// Whether an endpoint has written its keys to a key log.
    pub(crate) has_keys: bool,
}

/// Why a test did not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Failed(String),
    /// The test cannot be checked, for this reason.
    Unsupported(String),
}

/// The result of a check. The text of a success describes the result for the reader.
pub(crate) type Verdict = Result<String, Fault>;

fn failed<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(why.into()))
}

/// Returns an error with the reason `why` unless `holds` is true.
fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { failed(why()) }
}

/// Checks the results of a test. Measurements are [measured](goodput) instead.
pub(crate) fn check(evidence: &Evidence<'_>) -> Verdict {
    files::are_complete(evidence)?;
    let handshakes = match evidence.test.check {
        Check::Handshakes(count) => count,
        Check::Resumption | Check::ZeroRtt => 2,
        _ => 1,
    };
    if evidence.test.check != Check::V2 {
        handshake::in_version_1(evidence, handshakes)?;
    }
    match evidence.test.check {
        Check::Transfer | Check::Handshakes(_) | Check::Goodput => {
            Ok(format!("{handshakes} handshake{}", if handshakes == 1 { "" } else { "s" }))
        }
        Check::Handshake => handshake::without_retry(evidence),
        Check::LongRoundTrip => handshake::repeats_client_hello(evidence),
        Check::ChaCha20 => handshake::offers_only_chacha20(evidence),
        Check::Retry => handshake::uses_retry_token(evidence),
        Check::Multiplexing => with_keys(evidence, handshake::limits_streams),
        Check::Resumption => with_keys(evidence, handshake::is_resumed),
        Check::ZeroRtt => handshake::has_early_data(evidence),
        Check::KeyUpdate => with_keys(evidence, handshake::updates_keys),
        Check::Ecn => with_keys(evidence, marks::are_ect_and_acknowledged),
        Check::AmplificationLimit => with_keys(evidence, amplification::is_limited),
        Check::Ipv6 => paths::are_ipv6(evidence),
        Check::V2 => versions::become_2(evidence),
        Check::RebindPort => with_keys(evidence, paths::are_validated),
        Check::RebindAddress => with_keys(evidence, paths::are_validated_at_new_addresses),
        Check::ConnectionMigration => with_keys(evidence, paths::are_migrated_to),
    }
}

fn with_keys(evidence: &Evidence<'_>, check: impl FnOnce(&Evidence<'_>) -> Verdict) -> Verdict {
    match evidence.has_keys {
        true => check(evidence),
        false => Err(Fault::Unsupported("neither endpoint wrote its TLS secrets".to_owned())),
    }
}

/// Returns the goodput in kilobits per second: the size of the download divided by the time between
/// the server's first and last 1-RTT packets, as captured at the client.
pub(crate) fn goodput(evidence: &Evidence<'_>) -> Result<f64, Fault> {
    check(evidence)?;
    goodput_of(evidence)
}

fn goodput_of(evidence: &Evidence<'_>) -> Result<f64, Fault> {
    let mut times = evidence.client.of(Sender::Server, Kind::OneRtt).map(|packet| packet.at);
    let (Some(first), Some(last)) = (times.next(), times.last()) else {
        return failed("the server sent fewer than two 1-RTT packets");
    };
    let milliseconds = last.saturating_sub(first).as_secs_f64() * 1e3;
    Ok(8.0 * evidence.test.size() as f64 / milliseconds)
}
