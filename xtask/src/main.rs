//! The project's development tasks, run as `cargo xtask COMMAND`.

#[macro_use(eprint, eprintln, print, println)]
extern crate clearway_terminal;

mod attack;
mod balance;
mod bench;
mod book;
mod bounded;
mod check;
mod command;
mod conformance;
mod cost;
mod dist;
mod doctor;
mod failures;
mod features;
mod figures;
mod fuzz;
mod gallery;
mod handshakes;
mod install;
mod interop;
mod live;
mod measure;
mod mirror;
mod mutants;
mod options;
mod peers_debian;
mod platforms;
mod program;
mod running;
mod surface;
mod test;
mod udp_loss;
mod viewer;
mod waiting;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clearway_terminal::output::refusal;

/// The project's development tasks
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Program {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all checks: formatting, lints, documentation, tests, and the gallery's patches
    Test(test::TestOptions),
    /// Run the checks that a change must pass before it is proposed
    ///
    /// Checks the formatting and lints, and runs all tests of the changed crates and the unit tests
    /// of their direct dependents, in a few minutes.
    Check(check::CheckOptions),
    /// Check the formatting, lint, and build the documentation, with warnings denied
    Lint,
    /// Build other QUIC stacks, and run the tests that need them
    Peers,
    /// Run `clearway probe conformance` against Clearway's server and those of other QUIC stacks
    ///
    /// Builds the stacks, and compares the results of all checks with docs/probe-results.md. Takes about a minute after the build.
    Conformance {
        /// Write docs/probe-results.md and the summary in docs/probe.md
        #[arg(long)]
        write: bool,
    },
    /// Attack running programs over loopback and compare the cost of each attack with its bound
    ///
    /// The programs are `serve`, `balance`, `get` and a library server, with a well-behaved client beside each attack. Takes ten
    /// minutes.
    Attack(attack::AttackOptions),
    /// Run `clearway balance` in front of servers of two kinds, in network namespaces
    ///
    /// Clients download from three `clearway serve` or three quic-go servers while they change
    /// their addresses and connection IDs, and while servers and balancers are stopped, added and
    /// replaced. Needs root; takes three minutes.
    BalanceTest(balance::BalanceTestOptions),
    /// Run `clearway doctor` on hosts with a fault and print the confusion matrix
    ///
    /// Injects each fault in network namespaces, runs the doctor as root and as another user, and
    /// compares its verdicts with the injected fault. Needs root; takes half an hour.
    DoctorTest(doctor::DoctorTestOptions),
    /// Compare Clearway's speed with other stacks and with the limits of the machine
    ///
    /// Without a benchmark's name, runs bulk, requests with latency, handshakes, memory and limits
    /// in turn (takes hours), and prints Markdown tables at the end.
    Bench(bench::BenchOptions),
    /// Add the documents that the book links to, for `mdbook build docs/book`, which runs this
    Book(book::BookOptions),
    /// Count the instructions of single operations, handshakes and requests
    ///
    /// Measures operations with few and with many streams, connections, lost packets and fragments,
    /// and a small request with each API (handlers in the shard, tasks, client). Fails above 105 %
    /// of limits/instructions.toml. Needs valgrind.
    Cost {
        /// Write limits/instructions.toml
        #[arg(long)]
        write: bool,
    },
    /// Build the files of a release in target/dist-out
    ///
    /// An archive for each target, a Debian package, a bill of materials (SBOM), a Homebrew formula and SHA256SUMS. Needs
    /// rustup; installs the targets' standard libraries, and with root musl-tools, MinGW and zip. Takes 40 minutes on two cores.
    Dist(dist::DistOptions),
    /// Reproduce the experiment of docs/udp-loss.md on this machine
    ///
    /// Runs a proxy beyond its maximum rate, the same proxy with a larger receive buffer, and
    /// `clearway balance` in its place, each in network namespaces and observed by `clearway
    /// doctor`. Writes the output, the snapshots and a picture to target/udp-loss. Needs root;
    /// takes a minute plus the build.
    UdpLoss {
        /// Write the picture to this file instead
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
    /// Check that the viewer's committed page matches its source, and test the page and HTTP/3 in a
    /// browser
    Viewer {
        /// Only generate the TypeScript types of the messages to the page from the Rust types
        #[arg(long)]
        types: bool,
    },
    /// Compile the library with several combinations of its cargo features
    ///
    /// Also runs an example with each cryptographic library alone, and searches for unused
    /// dependencies (cargo-machete).
    Features,
    /// Fuzz every decoder of files and of bytes from a peer, guided by code coverage
    Fuzz(fuzz::FuzzOptions),
    /// Run curl, nginx, HAProxy, Caddy, Chromium and Firefox from Debian sid against Clearway
    ///
    /// Tests Clearway in both roles and prints a matrix. Creates a chroot in target/peers-debian,
    /// for which it needs root, debootstrap and a Debian mirror (the one that apt uses, or the one
    /// in the environment variable MIRROR).
    PeersDebian(peers_debian::PeersDebianOptions),
    /// Check library and program for macOS, Windows, FreeBSD and WebAssembly; run it under Wine
    ///
    /// Clippy checks the Rust code; zig, MinGW and GCC compile the C code of dependencies. Tests for AArch64 and s390x run under
    /// QEMU. The program for Windows is linked, and under Wine downloads 100 MB from itself, and from and to the program for Linux.
    /// Needs rustup and python3; installs the standard libraries, zig, and with root the cross compilers, QEMU, MinGW and Wine.
    /// Takes 40 minutes if nothing is built yet.
    Platforms {
        /// Check only this target; can be repeated
        #[arg(long, value_name = "TRIPLE")]
        target: Vec<String>,
    },
    /// Redraw the documents' pictures of the demo and of the lab, and check figures in documents
    ///
    /// Fails if a picture did not match the program, or if a figure does not match the code or the
    /// document that it comes from. Prints the commands for the other pictures, which take longer
    /// or need root.
    Figures {
        /// Use this program instead of building it
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Inject faults into a server with 1,000 connections, and count what is lost
    ///
    /// The server is restarted, drained or stopped, all clients migrate, the clock jumps, file
    /// descriptors, disk or memory run out, or system calls or the network fail; a log line and a
    /// metric must report it. Needs root with network namespaces, mounts and cgroups, and cc, nft,
    /// tc and prlimit. Use a release build. Takes four minutes.
    Storms(attack::storms::StormsOptions),
    /// Compare the crates' public items with the lists in docs/surface
    Surface {
        /// Write the lists
        #[arg(long)]
        write: bool,
    },
    /// Apply published bugs of other stacks to Clearway's code, and check that each is detected
    Gallery(gallery::GalleryOptions),
    /// Make post-quantum handshakes over a link that loses datagrams
    ///
    /// Runs between Clearway, quinn and quic-go, with Clearway in both roles. Builds the peers.
    Handshakes(handshakes::HandshakesOptions),
    /// Run the tests of the public interop runner between Clearway and other stacks
    #[command(disable_help_flag = true)]
    Interop {
        /// Options of the runner; pass --help to list them
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        arguments: Vec<String>,
    },
    /// Download over real sockets, through a reordering path, and at 1 Gbit/s with 100 ms
    Live,
    /// Mutate congestion control and the transport; a test must fail for each mutant
    Mutants(mutants::MutantsOptions),
    /// Receive datagrams: the program that `doctor-test` examines
    #[command(hide = true)]
    DoctorReader(doctor::reader::Reader),
}

fn run(task: Task) -> Result<(), String> {
    match task {
        Task::Test(options) => test::run(&options),
        Task::Check(options) => check::run(&options),
        Task::Attack(options) => attack::run(&options),
        Task::BalanceTest(options) => balance::run(&options),
        Task::DoctorTest(options) => doctor::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Book(options) => book::run(&options),
        Task::Cost { write } => cost::run(write),
        Task::Dist(options) => dist::run(&options),
        Task::UdpLoss { picture } => udp_loss::run(picture),
        Task::Viewer { types: true } => viewer::write_types(),
        Task::Viewer { types: false } => viewer::run(),
        Task::Lint => test::lint_all(),
        Task::Peers => test::run_peers(),
        Task::Conformance { write } => conformance::run(write),
        Task::Features => features::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::PeersDebian(options) => peers_debian::run(&options),
        Task::Platforms { target } => platforms::run(&target),
        Task::Figures { program } => figures::run(&program.map_or_else(command::program, Ok)?),
        Task::Storms(options) => attack::storms::run(&options),
        Task::Surface { write } => surface::run(write),
        Task::Gallery(options) => gallery::run(&options),
        Task::Handshakes(options) => handshakes::run(&options),
        Task::Interop { arguments } => interop::run(&arguments),
        Task::Live => live::run(),
        Task::Mutants(options) => mutants::run(&options),
        Task::DoctorReader(reader) => doctor::reader::run(&reader),
    }
}

fn main() -> ExitCode {
    let Program { task } = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            refusal(&error.render().to_string(), || drop(error.print()));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::{output, root};

    #[test]
    fn options_do_not_contradict_each_other() {
        Program::command().debug_assert();
    }

    #[test]
    fn documented_commands_are_accepted() {
        let mut git = std::process::Command::new("git");
        git.args(["ls-files", "*.md", ".ci/run", ".github/workflows"]).current_dir(root());
        let (mut count, mut wrong) = (0, Vec::new());
        for file in output("git", &mut git).unwrap().lines() {
            let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            for line in text.lines() {
                let command = line.split('#').next().unwrap_or_default().trim();
                let command = command.trim_start_matches("- run: ");
                // A workflow expression is not the value of an option.
                if !command.starts_with("cargo xtask ") || command.contains("${{") {
                    continue;
                }
                count += 1;
                let parsed = Program::try_parse_from(command.split_whitespace().skip(1));
                if let Err(error) = parsed.map(drop)
                    && error.use_stderr()
                {
                    wrong.push(format!("{file}: {command}: {error}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 40, "only {count} commands were found");
    }
}
