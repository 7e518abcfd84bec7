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
mod peers_debian;
mod pictures;
mod program;
mod running;
mod surface;
mod test;
mod udp_loss;
mod viewer;
mod waiting;

use std::process::ExitCode;

const HELP: &str = "\
The project's development tasks.

  cargo xtask test           run all checks: format, lints, documentation, tests, and that the gallery's patches apply
        --peers              also test against other QUIC stacks (builds them; see interop/peers)
        --gallery            also build and run the marked patches of the gallery
        --viewer             also check that the viewer's committed page matches its source, and test it, and HTTP/3,
                             in a browser
        --cost               also run `cargo xtask cost`
        --features           also run `cargo xtask features`
        --fuzz               also run `cargo xtask fuzz`
        --doctor             also run `cargo xtask doctor-test` with one run of each fault (needs root)
  cargo xtask check          what a change has to pass before it is proposed: format, lints, all tests of the crates that
                             changed, and the unit tests of those that depend on them (a few minutes)
        --base COMMIT        what changed since COMMIT (default: since the main branch; on that branch, since the last commit)
        --slow               also 20 mutants of each area that changed
  cargo xtask attack         attack a running `serve`, `balance`, `get` and a library server over loopback, with a well-behaved
                             client beside each attack, and compare what each costs with its bound (ten minutes)
        --only NAME          only the attacks whose name contains NAME; may be given several times
        --quick              only the small set that continuous integration runs, against the program that the tests build (less
                             than a minute)
        --list               only print their names
        --program FILE       attack this program instead of building it
        --library FILE       the same for the library's example `peer`
  cargo xtask balance-test   `clearway balance` in front of three `clearway serve` and of three quic-go servers, in network
                             namespaces: clients download while they change their addresses and connection IDs, and
                             servers and balancers come and go (needs root; three minutes)
        --only NAME          only this scenario, or those of which this is half of the name; may be given several times
        --list               only print their names
        --json               print one object per scenario
  cargo xtask doctor-test    `clearway doctor` on hosts with a fault: each is made to happen in network namespaces, is looked at
                             with root and without, and the verdicts are compared with what was done; prints the
                             confusion matrix (needs root; half an hour)
        --only NAME          only this fault; may be given several times
        --runs N             how often each happens (default 20)
        --host               also the faults that need a setting of the whole host for some seconds
        --quiet              without the port scans, multicast and other programs that every host has beside its fault
        --short              one run of a fault of each stage whose verdict does not depend on how busy the host is (less
                             than a minute)
        --list               only print their names
        --json               print one object per fault
        --save FOLDER        keep the snapshots of each fault's first run, as crates/doctor/tests/fixtures has them
  cargo xtask bench          bulk, requests with latency, handshakes, memory and limits in turn (hours), with tables in
                             Markdown at the end
        --peer NAME          only beside this peer (quinn, tokio-quiche, s2n-quic, quic-go); may be given several times
        --rounds N           how often each pair runs each case (default 5)
        --json               print one object per case instead
  cargo xtask bench balance  what `clearway balance` forwards with one core, beside loops as they are often written and nginx
                             (if it is installed); what routing takes; what a second thread gains
        --rounds N           how often each is measured (default 5)
        --seconds N          how long a run takes (default 3)
        --case NAME          only forwarding, routing or scaling
        --picture FILE       draw which part of the offered datagrams is lost, at several rates, by a loop that is busy
                             with each datagram for 20 us, by the same with 4 times its buffer, and by the balancer
        --json               print one object per case
  cargo xtask bench bulk     download and upload 1 GiB over HTTP/3 and on raw streams, over 1 and over 100 connections:
                             Clearway in the shard and async, each peer, and Clearway with each peer, alternating
        --case h3|raw        run only one of the two
        --size BYTES         size of all connections together (default 1073741824)
        --datagram-size N    UDP payload size of all stacks; may be given several times (default 1452 and 8952);
                             discover: what each finds
        --peer NAME, --rounds N, --json
  cargo xtask bench requests small requests over HTTP/3, between the same pairs
        --peer NAME, --rounds N, --json
        --seconds N          how long a run takes (default 2)
        --size BYTES         size of each response (default 1024)
        --latency            also the latency at half of the measured rate, counted from when a request is due
        --no-busy-poll       Clearway sleeps at once instead of looking for datagrams before it sleeps
  cargo xtask bench handshakes full and resumed handshakes, between the same pairs
        --peer NAME, --rounds N, --json, --latency
        --count N            handshakes in a run (default 2000)
  cargo xtask bench limits   what this machine does at most: packet protection, copies, datagrams over loopback, and which
                             part of that Clearway's bulk transfers reach
        --rounds N, --json
        --size BYTES         size of a bulk transfer (default 1073741824)
  cargo xtask bench connections
                             open connections to one server, and make a request of 1 KiB on each every 30 seconds: what is
                             lost, how long answers take, memory, processor time
        --count N            number of connections, up to 300000
        --minutes M          for how long requests are counted once all are open (default 5)
        --balancer           through `clearway balance`
        --raw                on a raw stream for each request instead of HTTP/3
        --json               print one object
  cargo xtask bench memory   what each server keeps for an idle connection
        --count N            number of connections (default 10000)
        --peer NAME, --json
  cargo xtask bench overload first Initial packets that nobody answers for flood a server with 100 connections: what
                             requests take before, during and after, memory, Retry packets
        --initials N         number of packets, all different and prepared before, 1.2 kB each (default 1000000)
        --rate N             packets per second (default as many as the core sends that the load leaves)
        --json               print one object
  cargo xtask bench shards   how much a port gains from a second shard, each with a quarter of a core: small requests and
                             bulk
        --rounds N           how often each is measured (default 5)
        --seconds N          how long a run takes (default 5)
        --json               print one object per case
  cargo xtask bench moving   clients move to another local address every second while they make requests: what is lost,
                             latency, which datagrams the kernel gave to the right shard
        --connections N      number of clients (default 100)
        --seconds N          for how long (default 60)
        --shards N           how many shards the server has (default 2)
        --json               print one object
  cargo xtask bench replacing
                             replace `clearway serve --hot-restart` by a new process while clients make requests: what
                             fails, how long each old process takes to end, latency
        --times N            how often (default 20)
        --rate N             requests per second over 50 connections (default 500)
        --json               print one object
  cargo xtask bench qpack    header compression on the requests of a browser: bytes for each, and exchanges per second
        --seconds N          how long each case is repeated (default 2)
        --json               print one object per case
  cargo xtask cost           count the instructions of single operations with few and with many streams, connections,
                             lost packets and fragments, of handshakes and requests, and of a small request on each
                             face (in the shard, in a task, client); more than a twentieth above
                             limits/instructions.toml fails (needs valgrind)
        --write              write that file
  cargo xtask udp-loss       the story of docs/udp-loss.md as it happens here: a proxy beyond its rate, the same with a larger
                             receive buffer, and `clearway balance` in its place, each in network namespaces with `clearway
                             doctor` looking on; what was printed, the snapshots and a picture are in target/udp-loss
                             (needs root; a minute beside the building)
        --picture FILE       where the picture goes instead
  cargo xtask viewer --types generate the TypeScript types of what the program sends to the viewer's page from the
                             Rust types
  cargo xtask features       compile the library `clearway` with each of several sets of its cargo features, run an example with
                             either cryptographic library alone, and look for unused dependencies (cargo-machete)
  cargo xtask fuzz [TARGET]… fuzz every decoder of files and of bytes from a peer, guided by code coverage
        --seconds N          how long each target runs (default 20)
  cargo xtask peers-debian   run curl, nginx, HAProxy, Caddy, Chromium and Firefox of Debian sid against Clearway, in both
                             roles, and print a matrix; makes a chroot in target/peers-debian (needs root, debootstrap
                             and a Debian mirror: the one that apt uses, or that of the environment variable MIRROR)
        --only NAME          only this pair, end of a pair, test, or PAIR/TEST; may be given several times
        --list               only print their names
  cargo xtask pictures       redraw the README's pictures of the demo and of the lab
        --program FILE       with this program instead of building it
  cargo xtask storms         1,000 connections that make requests to `serve`, while it is restarted, drained or stopped, all
                             clients move, the clock jumps, or descriptors, disk, memory, calls to the kernel or the
                             network fail: what is lost, and whether a log line and a metric name it (root with network
                             namespaces, mounts and cgroups; cc, nft, tc and prlimit; use a release build; four minutes)
        --only NAME          only this storm; may be given several times
        --list               only print their names
        --program FILE       with this program instead of building it
  cargo xtask surface        compare the crates' public items with the lists in docs/surface
        --write              write these lists
  cargo xtask gallery        put bugs that were published about other stacks into our code, one at a time, and check
                             that each is detected
        --only NAME          only this patch, or the patches of this row; may be given several times
        --marked             only the rows whose bug was described in full
        --check              only check that all patches apply
        --write              write the table in gallery/README.md
        --json               print one object per patch, and a last one with the score
  cargo xtask handshakes     make handshakes with post-quantum keys between Clearway, quinn and quic-go over a link that
                             loses datagrams, in both roles (builds the peers)
        --count N            how many for each pair and loss (default 200)
        --loss N,…           the losses in percent (default 0,2,8,15)
        --peers NAME,…       only with these: quinn, quic-go
        --seed N             the link's seed (default 1)
  cargo xtask interop        run the tests of the public interop runner between Clearway and other stacks
        --help               its options
  cargo xtask live           downloads over real sockets, through a path that reorders, and at 1 Gbit/s and 100 ms
  cargo xtask mutants        make small changes to congestion and transport; a test has to fail for each
        --all                to all crates, and to the programs serve, get and balance (hours)
        --crate NAME         to this crate or program only; may be repeated
        --sample N           how many mutants of each to try (default 100)
        --seed N             which mutants the samples consist of (default 1)
        --only PART          of this sample, only mutants whose name contains PART
        --list               only print their names
        --json               print one object per mutant, and a last one with the score
";

fn is_help(word: &&str) -> bool {
    ["--help", "-h"].contains(word)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        // The runner has a help text of its own.
        [command, rest @ ..] if *command != "interop" && rest.iter().any(is_help) => {
            print!("{HELP}");
            Ok(())
        }
        ["test", rest @ ..] => test::run(rest),
        ["attack", rest @ ..] => attack::run(rest),
        ["balance-test", rest @ ..] => balance::run(rest),
        ["bench", rest @ ..] => bench::run(rest),
        ["check", rest @ ..] => check::run(rest),
        ["cost", rest @ ..] => cost::run(rest),
        ["doctor-reader", rest @ ..] => doctor::reader::run(rest),
        ["doctor-test", rest @ ..] => doctor::run(rest),
        ["features", rest @ ..] => features::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["gallery", rest @ ..] => gallery::run(rest),
        ["handshakes", rest @ ..] => handshakes::run(rest),
        ["interop", rest @ ..] => interop::run(rest),
        ["live"] => live::run(),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["peers-debian", rest @ ..] => peers_debian::run(rest),
        ["pictures"] => command::program().and_then(|program| pictures::run(&program)),
        ["pictures", "--program", program] => pictures::run(program.as_ref()),
        ["storms", rest @ ..] => attack::storms::run(rest),
        ["surface", rest @ ..] => surface::run(rest),
        ["udp-loss", rest @ ..] => udp_loss::run(rest),
        ["viewer", "--types"] => viewer::write_types(),
        _ => Err(format!("unknown command: {}\n\n{HELP}", arguments.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
