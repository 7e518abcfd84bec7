//! The project's development tasks, run as `cargo xtask COMMAND`.

#[macro_use(eprint, eprintln, print, println)]
extern crate clearway_terminal;

mod attack;
mod balance;
mod bench;
mod bounded;
mod check;
mod command;
mod cost;
mod doctor;
mod features;
mod fuzz;
mod gallery;
mod handshakes;
mod interop;
mod live;
mod measure;
mod mutants;
mod options;
mod peers_debian;
mod pictures;
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
    /// Run all checks: format, lints, documentation, tests, and that the gallery's patches apply
    Test(test::TestOptions),
    /// Run what a change has to pass before it is proposed
    ///
    /// That is the format, lints, all tests of the crates that changed, and the unit tests of those that depend on them
    /// directly: a few minutes.
    Check(check::CheckOptions),
    /// Check the format, lint, and build the documentation, with warnings denied
    Lint,
    /// Build other QUIC stacks, and run the tests that need them
    Peers,
    /// Attack running programs over loopback and compare what each attack costs with its bound
    ///
    /// The programs are `serve`, `balance`, `get` and a library server, with a well-behaved client beside each attack. Takes ten
    /// minutes.
    Attack(attack::AttackOptions),
    /// Run `clearway balance` in front of servers of two kinds, in network namespaces
    ///
    /// Clients download from three `clearway serve` or three quic-go servers while they change their addresses and connection IDs,
    /// and servers and balancers come and go. Needs root; takes three minutes.
    BalanceTest(balance::BalanceTestOptions),
    /// Run `clearway doctor` on hosts with a fault and print the confusion matrix
    ///
    /// Each fault is made to happen in network namespaces, is looked at with root and without, and the verdicts are compared with
    /// what was done. Needs root; takes half an hour.
    DoctorTest(doctor::DoctorTestOptions),
    /// Measure Clearway beside other stacks, and beside what the machine can do
    ///
    /// Without a benchmark: bulk, requests with latency, handshakes, memory and limits in turn (hours), with tables in Markdown at
    /// the end.
    Bench(bench::BenchOptions),
    /// Count the instructions of single operations, handshakes and requests
    ///
    /// Operations are measured with few and with many streams, connections, lost packets and fragments, and a small request on each
    /// face (in the shard, in a task, client). More than a twentieth above limits/instructions.toml fails. Needs valgrind.
    Cost {
        /// Write limits/instructions.toml
        #[arg(long)]
        write: bool,
    },
    /// Tell the story of docs/udp-loss.md as it happens here
    ///
    /// A proxy beyond its rate, the same with a larger receive buffer, and `clearway balance` in its place, each in network
    /// namespaces with `clearway doctor` looking on; what was printed, the snapshots and a picture are in target/udp-loss. Needs
    /// root; takes a minute beside the building.
    UdpLoss {
        /// Draw the picture in this file instead
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
    /// Check that the viewer's committed page matches its source, and test it, and HTTP/3, in a browser
    Viewer {
        /// Instead generate the TypeScript types of what the program sends to the page from the Rust types
        #[arg(long)]
        types: bool,
    },
    /// Compile the library with each of several sets of its cargo features
    ///
    /// Also runs an example with either cryptographic library alone, and looks for unused dependencies (cargo-machete).
    Features,
    /// Fuzz every decoder of files and of bytes from a peer, guided by code coverage
    Fuzz(fuzz::FuzzOptions),
    /// Run curl, nginx, HAProxy, Caddy, Chromium and Firefox of Debian sid against Clearway
    ///
    /// In both roles; prints a matrix. Makes a chroot in target/peers-debian: needs root, debootstrap and a Debian mirror, the one
    /// that apt uses or that of the environment variable MIRROR.
    PeersDebian(peers_debian::PeersDebianOptions),
    /// Check the library for macOS, Windows, FreeBSD and WebAssembly
    ///
    /// The compiler checks the Rust code; nothing is linked or run. Needs rustup, which installs the standard libraries.
    Platforms,
    /// Redraw the README's pictures of the demo and of the lab
    Pictures {
        /// Use this program instead of building it
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Let something happen to a server with 1,000 connections, and see what is lost
    ///
    /// The server is restarted, drained or stopped, all clients move, the clock jumps, or descriptors, disk, memory, calls to the
    /// kernel or the network fail; a log line and a metric have to name it. Needs root with network namespaces, mounts and cgroups;
    /// cc, nft, tc and prlimit; use a release build. Takes four minutes.
    Storms(attack::storms::StormsOptions),
    /// Compare the crates' public items with the lists in docs/surface
    Surface {
        /// Write these lists
        #[arg(long)]
        write: bool,
    },
    /// Put bugs that were published about other stacks into our code, and check that each is detected
    Gallery(gallery::GalleryOptions),
    /// Make handshakes with post-quantum keys over a link that loses datagrams
    ///
    /// Between Clearway, quinn and quic-go, in both roles. Builds the peers.
    Handshakes(handshakes::HandshakesOptions),
    /// Run the tests of the public interop runner between Clearway and other stacks
    #[command(disable_help_flag = true)]
    Interop {
        /// Options of the runner; --help prints them
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        arguments: Vec<String>,
    },
    /// Download over real sockets, through a path that reorders, and at 1 Gbit/s and 100 ms
    Live,
    /// Make small changes to congestion control and the transport; a test has to fail for each
    Mutants(mutants::MutantsOptions),
    /// Receive datagrams: the program that `doctor-test` looks at
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
        Task::Cost { write } => cost::run(write),
        Task::UdpLoss { picture } => udp_loss::run(picture),
        Task::Viewer { types: true } => viewer::write_types(),
        Task::Viewer { types: false } => viewer::run(),
        Task::Lint => test::lint_all(),
        Task::Peers => test::run_peers(),
        Task::Features => features::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::PeersDebian(options) => peers_debian::run(&options),
        Task::Platforms => platforms::run(),
        Task::Pictures { program } => pictures::run(&program.map_or_else(command::program, Ok)?),
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
                // A workflow expression is not an option's value.
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
