//! The tests, the clients that run them, and the network path.

use super::Bench;
use super::problem::Problem;
use super::servers::{Site, Variant};
use crate::running::Running;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    Download,
    Upload,
    EarlyAnswer,
    Parallel,
    EarlyHints,
    Trailers,
    Retry,
    Resumption,
    EarlyData,
    KeyUpdate,
    Migration,
    Loss,
    Reordering,
    MtuDrop,
    Version2,
}

impl Test {
    pub(crate) const ALL: [(Self, &str); 15] = [
        (Self::Download, "download"),
        (Self::Upload, "upload"),
        (Self::EarlyAnswer, "early-answer"),
        (Self::Parallel, "parallel-300"),
        (Self::EarlyHints, "early-hints"),
        (Self::Trailers, "trailers"),
        (Self::Retry, "retry"),
        (Self::Resumption, "resumption"),
        (Self::EarlyData, "early-data"),
        (Self::KeyUpdate, "key-update"),
        (Self::Migration, "migration"),
        (Self::Loss, "loss"),
        (Self::Reordering, "reordering"),
        (Self::MtuDrop, "mtu-drop"),
        (Self::Version2, "version-2"),
    ];

    /// Returns the special server behavior that the test needs.
    pub(crate) fn variant(self) -> Variant {
        match self {
            Self::Retry => Variant::Retry,
            Self::KeyUpdate => Variant::KeyUpdate,
            Self::Version2 => Variant::Version2,
            _ => Variant::Usual,
        }
    }

    /// Returns the `clearway link` options that impair the path, if the test needs any.
    fn impairment(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Loss => Some(&["--delay", "10ms", "--loss", "2%"]),
            Self::Reordering => Some(&["--delay", "10ms", "--reorder", "5%"]),
            Self::MtuDrop => Some(&[
                "--delay",
                "5ms",
                "--mtu",
                "1472,1250@300ms",
                "--rate",
                "40mbit",
                "--queue",
                "100",
            ]),
            _ => None,
        }
    }

    /// The `clearway link` options that simulate a NAT rebinding in the middle of a download.
    pub(crate) const REBINDING: &[&str] =
        &["--delay", "5ms", "--rate", "40mbit", "--queue", "100", "--rebind-after", "300ms"];
    /// The `clearway link` options for a path on which a download takes long enough for the client
    /// to migrate.
    pub(crate) const SLOW: &[&str] = &["--delay", "5ms", "--rate", "40mbit", "--queue", "100"];
}

/// Starts `clearway link` in front of a server.
pub(crate) fn link(bench: &Bench, site: &Site, options: &[&str]) -> Result<Running, Problem> {
    let server = site.address.to_string();
    let mut words = vec!["link", "--listen", "127.0.0.1:0", "--to", &server, "--seed", "7"];
    words.extend(options);
    Ok(Running::start(&bench.program, &words)?)
}

/// Starts `clearway link` if the test impairs the path. Returns the link, and the address that the
/// client connects to.
pub(crate) fn path(
    bench: &Bench,
    test: Test,
    site: &Site,
) -> Result<(Option<Running>, String), Problem> {
    let Some(options) = test.impairment() else { return Ok((None, site.address.to_string())) };
    let link = link(bench, site, options)?;
    let address = link.address.clone();
    Ok((Some(link), address))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    Curl,
    Chromium,
    Firefox,
    /// The program `clearway get`.
    Get,
    /// The library's example client `peer`.
    Library,
}

impl Client {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
            Self::Get => "get",
            Self::Library => "library",
        }
    }
}
