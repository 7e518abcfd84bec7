//! `cargo xtask bench connections`: many connections in one server process, each with a small
//! request every 30 seconds. Requests are made over HTTP/3 or, with `--raw`, on raw streams; with
//! `--balancer` they go through a load balancer.

mod balancer;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use clap::value_parser;
use serde_json::{Value, json};

use self::balancer::Balancer;
use super::kernel::{UdpErrors, socket_drops, udp_errors};
use super::place::{CLIENT_CORE, Place, SERVE_HTTP3, SERVE_RAW};
use super::stacks::{Stack, build};
use super::{counted, latency, merged, round, text};
use crate::command::run as show;
use crate::measure::{Process, Server};

const MAX_COUNT: u64 = 300_000;
/// Maximum number of connections per local address: the capacity of a client endpoint.
const PER_ADDRESS: u64 = 100_000;
const MIN_ADDRESSES: u64 = 4;
/// Interval between a connection's requests in seconds.
const PERIOD: u64 = 30;
/// An allocator setting for server and generator: memory is returned only in whole huge pages, so
/// that nearly all memory stays in huge pages, and fewer accesses miss the TLB.
const HUGE_PAGES: &str = "MIMALLOC_ALLOW_THP=2";
/// The idle timeout in seconds. It is the same as the generator's, which makes fewer requests while
/// it opens connections.
const IDLE_TIMEOUT: u64 = 10 * PERIOD;

#[derive(clap::Args)]
pub(super) struct ConnectionsOptions {
    /// Number of connections
    #[arg(long, value_parser = value_parser!(u64).range(1..=MAX_COUNT))]
    count: u64,
    /// How long to count requests once all connections are open
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=24 * 60))]
    minutes: u64,
    /// Connect through `clearway balance`
    #[arg(long)]
    balancer: bool,
    /// Use a raw stream for each request instead of HTTP/3
    #[arg(long)]
    raw: bool,
}

/// The resources that the server and the generator have used at one point in time.
#[derive(Clone, Copy)]
struct Used {
    server_bytes: f64,
    generator_bytes: f64,
    /// The balancer's memory in bytes; 0 without a balancer. The same holds for its CPU time.
    balancer_bytes: f64,
    server_cpu: f64,
    generator_cpu: f64,
    balancer_cpu: f64,
}

/// The measured values.
struct Measured {
    /// The generator's output.
    load: Value,
    /// The server's memory per connection in bytes, when all connections were open and at the end.
    server_bytes: [f64; 2],
    generator_bytes: f64,
    /// The balancer's memory per connection in bytes, at the end.
    balancer_bytes: f64,
    /// CPU seconds used by the server, the generator and the balancer during the steady phase.
    cpu: [f64; 3],
    seconds: f64,
    /// UDP error counters of the whole machine.
    errors: UdpErrors,
    /// Datagrams dropped by the sockets of these processes.
    drops: u64,
    /// How the balancer found the servers for datagrams, and what it remembers, according to its
    /// metrics at the end.
    balancer: Option<Value>,
}

pub(super) fn run(options: &ConnectionsOptions, json: bool) -> Result<(), String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let measured = measure(options, &ours, &place)?;
    report(options, json, &measured);
    verdict(&measured)
}

fn measure(
    options: &ConnectionsOptions,
    program: &Path,
    place: &Place,
) -> Result<Measured, String> {
    let before = udp_errors()?;
    // Some handshakes may be retried.
    let (max, idle) = ((options.count + 1000).to_string(), IDLE_TIMEOUT.to_string());
    let options_of_server = ["--attached", "--max-connections", &max, "--idle-timeout", &idle];
    let with_huge_pages = [HUGE_PAGES, text(program)];
    let (serve, protocol): (&[&str], _) =
        if options.raw { (&SERVE_RAW, "raw") } else { (&SERVE_HTTP3, "http3") };
    let mut command = [&with_huge_pages[..], serve, &options_of_server].concat();
    if options.balancer {
        command.extend(balancer::OPTIONS_OF_SERVER);
    }
    let env = Path::new("env");
    let server = place.serve(&Stack::ours(env, "in the shard", &[]), &command)?;
    share_cores(server.id())?;
    let balancer = options.balancer.then(|| Balancer::start(&server.address)).transpose()?;
    let balancer = balancer.as_ref();
    balancer.map_or(Ok(()), |it| share_cores(it.id()))?;
    let address = balancer.map_or(&server.address, |it| &it.address);
    let count = options.count.to_string();
    let (seconds, period) = ((options.minutes * 60).to_string(), PERIOD.to_string());
    let addresses = options.count.div_ceil(PER_ADDRESS).max(MIN_ADDRESSES).to_string();
    let mut arguments = with_huge_pages.to_vec();
    arguments.extend(["connections", "--ca", text(&place.authority)]);
    arguments.extend(["--connect", address, "--protocol", protocol, "--count", &count]);
    arguments.extend(["--addresses", &addresses, "--seconds", &seconds, "--period", &period]);
    let mut generator = Process::start(env, &arguments, CLIENT_CORE, "first")?;
    share_cores(generator.id())?;
    let first = generator.said();
    let first: f64 = first.parse().map_err(|_| format!("the generator printed {first}"))?;
    let warm = used(&server, &generator, balancer)?;
    step(&mut generator)?;
    eprintln!("xtask: all connections are open; waiting until the server's memory is stable");
    server.settled_bytes()?;
    let open = used(&server, &generator, balancer)?;
    let began = Instant::now();
    let result = step(&mut generator)?;
    let seconds = began.elapsed().as_secs_f64();
    let end = used(&server, &generator, balancer)?;
    let load = serde_json::from_str(&result).map_err(|error| format!("{result:?}: {error}"))?;
    let others = options.count as f64 - first;
    Ok(Measured {
        load,
        server_bytes: [open, end].map(|it| (it.server_bytes - warm.server_bytes) / others),
        generator_bytes: (end.generator_bytes - warm.generator_bytes) / others,
        balancer_bytes: (end.balancer_bytes - warm.balancer_bytes) / others,
        cpu: [
            end.server_cpu - open.server_cpu,
            end.generator_cpu - open.generator_cpu,
            end.balancer_cpu - open.balancer_cpu,
        ],
        seconds,
        errors: udp_errors()?.since(before),
        drops: socket_drops(server.id())?
            + socket_drops(generator.id())?
            + balancer.map_or(Ok(0), |it| socket_drops(it.id()))?,
        balancer: balancer.map(Balancer::counted).transpose()?,
    })
}

/// Lets the generator continue, and returns the next line of its output.
fn step(generator: &mut Process) -> Result<String, String> {
    generator.go_on()?;
    generator.next_line().ok_or_else(|| "the generator failed; the reason is above".to_owned())
}

/// Sets the scheduling policy SCHED_BATCH (sched(7)), since more threads are busy than there are
/// cores. With SCHED_BATCH, a woken thread waits until it is scheduled and then finds many
/// datagrams. Otherwise it would preempt another thread for every few datagrams.
fn share_cores(process: u32) -> Result<(), String> {
    let mut command = Command::new("chrt");
    command.args(["--batch", "--all-tasks", "--pid", "0", &process.to_string()]);
    show("setting the scheduling policy of a process", &mut command)
}

fn used(server: &Server, generator: &Process, balancer: Option<&Balancer>) -> Result<Used, String> {
    Ok(Used {
        server_bytes: server.resident_bytes()? as f64,
        generator_bytes: generator.resident_bytes()? as f64,
        balancer_bytes: balancer.map_or(Ok(0), Balancer::resident_bytes)? as f64,
        server_cpu: server.cpu_seconds()?,
        generator_cpu: generator.cpu_seconds()?,
        balancer_cpu: balancer.map_or(Ok(0.0), Balancer::cpu_seconds)?,
    })
}

fn report(options: &ConnectionsOptions, json: bool, measured: &Measured) {
    let Measured { load, server_bytes, generator_bytes, cpu, seconds, errors, drops, .. } =
        measured;
    if json {
        println!("{}", object(options, measured));
        return;
    }
    let value = |name| counted(load, name);
    println!(
        "connections  {} at {} local addresses; {:.0} opened per second, {} handshakes failed, {} lost",
        options.count,
        value("addresses"),
        value("opened_per_second"),
        value("handshakes_failed"),
        value("lost")
    );
    println!(
        "requests     {} in {seconds:.0} s: {} answered, {} failed ({} more before), {} late (after more than 1 s); \
         {}",
        value("requests"),
        value("answered"),
        value("failed"),
        value("failed_early"),
        value("late"),
        latency(load)
    );
    println!(
        "memory       {:.1} KiB of the server for each connection, {:.1} at the end; {:.1} of the generator",
        server_bytes[0] / 1024.0,
        server_bytes[1] / 1024.0,
        generator_bytes / 1024.0
    );
    println!(
        "CPU          {:.2} s of the server, {:.2} s of the generator in {seconds:.0} s",
        cpu[0], cpu[1]
    );
    println!(
        "kernel       {} RcvbufErrors, {} InErrors of the machine; {drops} datagrams dropped by these sockets",
        errors.receive_buffer, errors.input
    );
    if let Some(balancer) = &measured.balancer {
        println!(
            "balancer     {:.0} bytes for each connection; {:.2} s of its CPU time; its metrics: \
             {balancer}",
            measured.balancer_bytes, cpu[2]
        );
    }
}

fn object(options: &ConnectionsOptions, measured: &Measured) -> Value {
    let Measured { load, server_bytes, generator_bytes, cpu, seconds, errors, drops, .. } =
        measured;
    let object = json!({
        "case": "connections",
        "protocol": if options.raw { "raw" } else { "http3" },
        "count": options.count,
        "minutes": options.minutes,
        "server_bytes_per_connection": server_bytes[0].round(),
        "server_bytes_per_connection_at_end": server_bytes[1].round(),
        "generator_bytes_per_connection": generator_bytes.round(),
        "steady_s": round(*seconds),
        "server_cpu_s": round(cpu[0]),
        "generator_cpu_s": round(cpu[1]),
        "receive_buffer_errors": errors.receive_buffer,
        "in_errors": errors.input,
        "socket_drops": drops,
    });
    let object = merged(object, load);
    let Some(balancer) = &measured.balancer else { return object };
    let of_balancer = json!({
        "balancer_bytes_per_connection": measured.balancer_bytes.round(),
        "balancer_cpu_s": round(cpu[2]),
        "balancer": balancer,
    });
    merged(object, &of_balancer)
}

/// Checks that none of the forbidden events occurred.
fn verdict(measured: &Measured) -> Result<(), String> {
    let Measured { load, errors, drops, .. } = measured;
    let faults = [
        ("lost", "lost"),
        ("handshakes_failed", "handshakes failed"),
        ("failed", "failed"),
        ("failed_early", "failed early"),
    ];
    if *drops == 0 && errors.receive_buffer + errors.input > 0 {
        eprintln!("xtask: the datagrams that the kernel dropped belonged to other programs");
    }
    let dropped = (*drops > 0).then(|| format!("{drops} datagrams dropped by sockets"));
    super::verdict("connections", load, &faults, dropped)
}
