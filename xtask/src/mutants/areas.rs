//! The parts of the project to mutate, and the tests that have to catch the mutants.

use std::path::Path;

/// A crate, or a part of a crate, with its own sample and target.
#[derive(Debug)]
pub(super) struct Area {
    /// Name of the area on the command line and in the table.
    pub(super) name: &'static str,
    /// Files to mutate.
    pub(super) files: &'static [&'static str],
    /// Packages whose tests must catch the mutants.
    pub(super) packages: &'static [&'static str],
    /// Target: minimum fraction of the mutants that build and are caught.
    pub(super) wanted: f64,
}

impl Area {
    /// Returns whether `file`, relative to the repository, is mutated.
    pub(super) fn contains(&self, file: &Path) -> bool {
        self.files.iter().any(|pattern| match pattern.strip_suffix("/**/*.rs") {
            Some(folder) => {
                file.starts_with(folder) && file.extension().is_some_and(|is| is == "rs")
            }
            None => file == Path::new(pattern),
        })
    }
}

/// Targets for libraries, and for programs and code that is tested through another program.
const OF_LIBRARIES: f64 = 0.95;
const OF_PROGRAMS: f64 = 0.90;

const fn area(
    name: &'static str,
    files: &'static [&'static str],
    packages: &'static [&'static str],
) -> Area {
    Area { name, files, packages, wanted: OF_LIBRARIES }
}

const fn program(name: &'static str, files: &'static [&'static str]) -> Area {
    let packages = &["clearway-cli"];
    Area { name, files, packages, wanted: OF_PROGRAMS }
}

/// All areas, in order from the lowest layer.
pub(super) const AREAS: [Area; 18] = [
    area("wire", &["crates/wire/src/**/*.rs"], &["clearway-wire", "clearway-transport"]),
    area(
        "congestion",
        &["crates/congestion/src/**/*.rs"],
        &["clearway-congestion", "clearway-transport", "clearway-lab"],
    ),
    area("network", &["crates/network/src/**/*.rs"], &["clearway-network", "clearway-lab"]),
    area("transport", &["crates/transport/src/**/*.rs"], &["clearway-transport", "clearway-lab"]),
    area("balancer", &["crates/balancer/src/**/*.rs"], &["clearway-balancer", "clearway-lab"]),
    area("http3", &["crates/http3/src/**/*.rs"], &["clearway-http3", "clearway"]),
    area("masque", &["crates/masque/src/**/*.rs"], &["clearway-masque"]),
    area("qlog", &["crates/qlog/src/**/*.rs"], &["clearway-qlog", "clearway-lab"]),
    area("kernel", &["crates/kernel/src/**/*.rs"], &["clearway-kernel", "clearway-io"]),
    area("udp", &["crates/udp/src/**/*.rs"], &["clearway-udp", "clearway-io"]),
    area("io", &["crates/io/src/**/*.rs"], &["clearway-io", "clearway", "clearway-cli"]),
    area("forward", &["crates/forward/src/**/*.rs"], &["clearway-forward", "clearway-cli"]),
    Area {
        wanted: OF_PROGRAMS,
        ..area("doctor", &["crates/doctor/src/**/*.rs"], &["clearway-doctor"])
    },
    area("clearway", &["crates/clearway/src/**/*.rs"], &["clearway"]),
    area("dns", &["crates/dns/src/**/*.rs"], &["clearway-dns"]),
    program(
        "serve",
        &[
            "crates/cli/src/serve.rs",
            "crates/cli/src/serve/**/*.rs",
            "crates/cli/src/system/linux.rs",
            "crates/cli/src/system/unix.rs",
        ],
    ),
    program("get", &["crates/cli/src/get.rs", "crates/cli/src/get/**/*.rs"]),
    program("balance", &["crates/cli/src/balance.rs", "crates/cli/src/balance/**/*.rs"]),
];

/// Files that are not mutated: tests, test support, and code that is compiled only for fuzz targets
/// or other operating systems.
pub(super) const EXCLUDED: [&str; 8] = [
    "**/fuzzing.rs",
    "crates/http3/src/conformance.rs",
    "crates/io/src/testing.rs",
    "crates/io/src/testing/*.rs",
    "crates/io/src/system/other.rs",
    "crates/io/src/system/other/*.rs",
    "crates/udp/src/socket/faults.rs",
    "crates/udp/src/socket/system/other.rs",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    #[test]
    fn every_file_of_an_area_is_there() {
        for area in &AREAS {
            for file in area.files {
                let place = file.split("/**").next().unwrap();
                assert!(root().join(place).exists(), "{}: {file}", area.name);
            }
        }
        let names = |file: &str| {
            let file = Path::new(file);
            AREAS
                .iter()
                .filter(|area| area.contains(file))
                .map(|area| area.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("crates/cli/src/get.rs"), ["get"]);
        assert_eq!(names("crates/io/src/shard/sending.rs"), ["io"]);
        assert!(names("crates/io/Cargo.toml").is_empty());
    }

    #[test]
    fn every_area_has_mutants_every_night() {
        let workflow =
            std::fs::read_to_string(root().join(".github/workflows/nightly.yml")).unwrap();
        let (_, list) = workflow.split_once("part: [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let listed: Vec<&str> = list.split(',').map(str::trim).collect();
        assert_eq!(listed, AREAS.map(|area| area.name));
    }
}
