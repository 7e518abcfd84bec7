//! The public interop runner's tests and measurements, as data.

use std::time::Duration;

use crate::network::Network;

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// The time limit of most tests.
const USUAL: Duration = Duration::from_secs(60);

/// A test or measurement of the public interop runner.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// The letter that represents the test in the matrix.
    pub(crate) letter: &'static str,
    /// The TESTCASE values of the client and of the server, which say what each endpoint must do.
    pub(crate) client_case: Case,
    pub(crate) server_case: Case,
    pub(crate) files: Files,
    pub(crate) network: Network,
    pub(crate) host: Host,
    /// Time limit for one run of the test.
    pub(crate) time_limit: Duration,
    pub(crate) check: Check,
}

/// An endpoint's task, which is the value of the environment variable TESTCASE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    Handshake,
    Transfer,
    ChaCha20,
    Retry,
    Resumption,
    ZeroRtt,
    Http3,
    KeyUpdate,
    Ecn,
    Multiconnect,
    V2,
    ConnectionMigration,
}

impl Case {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Transfer => "transfer",
            Self::ChaCha20 => "chacha20",
            Self::Retry => "retry",
            Self::Resumption => "resumption",
            Self::ZeroRtt => "zerortt",
            Self::Http3 => "http3",
            Self::KeyUpdate => "keyupdate",
            Self::Ecn => "ecn",
            Self::Multiconnect => "multiconnect",
            Self::V2 => "v2",
            Self::ConnectionMigration => "connectionmigration",
        }
    }
}

/// The files to download.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files {
    Sizes(&'static [usize]),
    /// The given number of files of the given size, with names of the given length.
    Many {
        count: usize,
        size: usize,
        name_length: usize,
    },
}

/// The address families of the server's host name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Host {
    V4,
    V6,
    /// Both address families; the client tries IPv4 first.
    V46,
}

/// The check that a test makes in addition to comparing the downloaded files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// Exactly one handshake in version 1, and no Retry packet.
    Handshake,
    /// Exactly one handshake in version 1.
    Transfer,
    /// One handshake in version 1, without a Retry packet, during which the client must have
    /// retransmitted its ClientHello.
    LongRoundTrip,
    ChaCha20,
    Multiplexing,
    Retry,
    Resumption,
    ZeroRtt,
    KeyUpdate,
    Ecn,
    AmplificationLimit,
    /// Exactly this number of handshakes.
    Handshakes(usize),
    Ipv6,
    V2,
    RebindPort,
    RebindAddress,
    ConnectionMigration,
    /// A measurement of the goodput, in several runs.
    Goodput,
}

impl Test {
    pub(crate) fn is_measurement(&self) -> bool {
        self.check == Check::Goodput
    }

    /// Returns the total number of bytes to download.
    pub(crate) fn size(&self) -> usize {
        match self.files {
            Files::Sizes(sizes) => sizes.iter().sum(),
            Files::Many { count, size, .. } => count * size,
        }
    }
}

const fn transfer(
    name: &'static str,
    letter: &'static str,
    sizes: &'static [usize],
    network: Network,
    check: Check,
) -> Test {
    Test {
        name,
        letter,
        client_case: Case::Transfer,
        server_case: Case::Transfer,
        files: Files::Sizes(sizes),
        network,
        host: Host::V4,
        time_limit: USUAL,
        check,
    }
}

const fn with_cases(test: Test, client_case: Case, server_case: Case) -> Test {
    Test { client_case, server_case, ..test }
}

const fn both(test: Test, case: Case) -> Test {
    with_cases(test, case, case)
}

const fn plain(
    name: &'static str,
    letter: &'static str,
    sizes: &'static [usize],
    check: Check,
) -> Test {
    transfer(name, letter, sizes, Network::PointToPoint, check)
}

const fn multiconnect(name: &'static str, letter: &'static str, network: Network) -> Test {
    let files = Files::Many { count: 50, size: KB, name_length: 10 };
    let test = transfer(name, letter, &[], network, Check::Handshakes(50));
    let time_limit = Duration::from_secs(300);
    both(Test { files, time_limit, ..test }, Case::Multiconnect)
}

/// All tests in the order of the public matrix, followed by the measurements.
pub(crate) static TESTS: [Test; 24] = [
    both(plain("handshake", "H", &[KB], Check::Handshake), Case::Handshake),
    plain("transfer", "DC", &[2 * MB, 3 * MB, 5 * MB], Check::Transfer),
    both(
        transfer("longrtt", "LR", &[KB], Network::LongDelay, Check::LongRoundTrip),
        Case::Handshake,
    ),
    both(plain("chacha20", "C20", &[3 * MB], Check::ChaCha20), Case::ChaCha20),
    Test {
        files: Files::Many { count: 1999, size: 32, name_length: 10 },
        ..plain("multiplexing", "M", &[], Check::Multiplexing)
    },
    both(plain("retry", "S", &[10 * KB], Check::Retry), Case::Retry),
    both(plain("resumption", "R", &[5 * KB, 10 * KB], Check::Resumption), Case::Resumption),
    both(
        Test {
            files: Files::Many { count: 40, size: 32, name_length: 250 },
            ..plain("zerortt", "Z", &[], Check::ZeroRtt)
        },
        Case::ZeroRtt,
    ),
    both(plain("http3", "3", &[5 * KB, 10 * KB, 500 * KB], Check::Transfer), Case::Http3),
    transfer("blackhole", "B", &[10 * MB], Network::Blackhole, Check::Transfer),
    with_cases(
        plain("keyupdate", "U", &[3 * MB], Check::KeyUpdate),
        Case::KeyUpdate,
        Case::Transfer,
    ),
    both(plain("ecn", "E", &[100 * KB], Check::Ecn), Case::Ecn),
    transfer("amplificationlimit", "A", &[5 * KB], Network::ListedLoss, Check::AmplificationLimit),
    multiconnect("handshakeloss", "L1", Network::Loss { percent: 30 }),
    transfer("transferloss", "L2", &[2 * MB], Network::Loss { percent: 2 }, Check::Transfer),
    multiconnect("handshakecorruption", "C1", Network::Corruption { percent: 30 }),
    transfer(
        "transfercorruption",
        "C2",
        &[2 * MB],
        Network::Corruption { percent: 2 },
        Check::Transfer,
    ),
    Test { host: Host::V6, ..plain("ipv6", "6", &[5 * KB, 10 * KB], Check::Ipv6) },
    both(plain("v2", "V2", &[KB], Check::V2), Case::V2),
    transfer("rebind-port", "BP", &[10 * MB], Network::RebindPort, Check::RebindPort),
    transfer("rebind-addr", "BA", &[10 * MB], Network::RebindAddress, Check::RebindAddress),
    with_cases(
        Test {
            host: Host::V46,
            ..plain("connectionmigration", "CM", &[2 * MB], Check::ConnectionMigration)
        },
        Case::Transfer,
        Case::ConnectionMigration,
    ),
    plain("goodput", "G", &[10 * MB], Check::Goodput),
    Test {
        time_limit: Duration::from_secs(180),
        ..transfer("crosstraffic", "C", &[25 * MB], Network::CrossTraffic, Check::Goodput)
    },
];

/// Returns the test with this name or abbreviation.
pub(crate) fn find(name: &str) -> Option<&'static Test> {
    TESTS.iter().find(|test| test.name == name || test.letter == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_tests_and_2_measurements_with_distinct_names() {
        let measurements = TESTS.iter().filter(|test| test.is_measurement()).count();
        assert_eq!((TESTS.len() - measurements, measurements), (22, 2));
        for test in &TESTS {
            for name in [test.name, test.letter] {
                assert!(std::ptr::eq(find(name).unwrap(), test), "{name}");
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_runner() {
        assert_eq!(find("DC").unwrap().size(), 10 << 20);
        assert_eq!(find("M").unwrap().size(), 1999 * 32);
        assert_eq!(find("crosstraffic").unwrap().size(), 25 << 20);
    }
}
