//! The `clearway` program: QUIC and HTTP/3 with congestion control that is tested never to stall.
//!
//! This is a library only so that it can be compiled in parallel with the lab; a binary would have
//! to wait.

mod address;
#[cfg_attr(not(target_os = "linux"), path = "system/absent/balance.rs")]
mod balance;
mod certificate;
mod completions;
mod connection_options;
mod demo;
mod dns;
#[cfg_attr(not(target_os = "linux"), path = "system/absent/doctor.rs")]
mod doctor;
mod events;
mod exporter;
mod file_fault;
mod get;
mod help;
mod http09;
mod http1;
mod http3_options;
mod key_exchange;
mod link;
mod listening;
mod live;
mod log;
mod manual;
mod observers;
mod probe;
mod proxy;
mod qlog;
mod qlog_files;
mod quic_lb_file;
mod quic_version;
mod relay;
mod replacing;
mod serve;
mod service_manager;
mod system;
mod ticket_keys;
mod tips;
#[cfg_attr(not(target_os = "linux"), path = "system/absent/tun.rs")]
mod tun;
#[cfg_attr(not(target_os = "linux"), path = "system/absent/tunnel.rs")]
mod tunnel;
mod units;
mod view;
mod watch;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clearway_lab_command as lab;
use clearway_terminal::{bars, failure, foreign, interrupt, output, shell, whole_file};

use failure::Failure;

/// QUIC and HTTP/3 with congestion control that is tested never to stall.
#[derive(Parser, Debug)]
#[command(name = "clearway", version, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::DemoCommand),
    Serve(Box<serve::ServeCommand>),
    Get(Box<get::GetCommand>),
    Balance(Box<balance::BalanceCommand>),
    Dns(Box<dns::DnsCommand>),
    Doctor(doctor::DoctorCommand),
    Link(Box<link::LinkCommand>),
    Proxy(Box<proxy::ProxyCommand>),
    Tunnel(Box<tunnel::TunnelCommand>),
    Lab(Box<lab::LabCommand>),
    Probe(Box<probe::ProbeCommand>),
    View(Box<view::ViewCommand>),
    Qlog(qlog::QlogCommand),
    Completions(completions::CompletionsCommand),
    Manual(manual::ManualCommand),
}

/// Maximum number of threads for blocking calls (disks, name servers, pipes). Tokio starts a thread
/// for each call that finds no idle one. By default, there may be 512 of them, which take 60 KB
/// each.
const BLOCKING_THREADS: usize = 64;

/// Runs the command that the program was started with. Returns its exit status.
pub fn main() -> ExitCode {
    system::avoid_huge_pages();
    std::panic::set_hook(Box::new(panicked));
    let program = match parse() {
        Ok(program) => program,
        Err(error) => return refuse(error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(program.command));
            // The program does not wait for blocking tasks, such as a query to a silent name server
            // or a write to a pipe that is not read.
            runtime.shutdown_background();
            clearway::halt();
            qlog_files::finish();
            outcome
        }
        Err(error) => Err(Failure::new(format!("cannot start threads: {error}"))),
    };
    output::conclude("clearway", outcome)
}

fn parse() -> Result<Program, clap::Error> {
    let command = || help::arranged(Program::command(), output::width());
    let matches = command().try_get_matches()?;
    Program::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))
}

/// Prints a panic like the default hook, but without waiting for standard error: the panic may have
/// happened on a shard's thread.
fn panicked(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let payload = panic.payload();
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    let message = payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no message");
    output::status_lines(&format!("thread '{name}' panicked{place}:\n{message}"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        output::status_lines(&format!("stack backtrace:\n{backtrace}"));
    }
    if name == "main" {
        // The program ends together with the main thread.
        output::finish();
    }
}

/// Prints an argument error or the requested help.
fn refuse(error: clap::Error) -> ExitCode {
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let error = tips::add(error, &command.to_string_lossy());
    let text = error.render().to_string();
    match tips::expected_number(&text) {
        Some(text) => output::refusal(&text, || output::status_lines(text.trim_end())),
        // If even this cannot be printed, nothing can be done.
        None => output::refusal(&text, || drop(error.print())),
    }
    let is_doctor = command == "doctor";
    match u8::try_from(error.exit_code()).unwrap_or(doctor::FAILED) {
        0 => ExitCode::SUCCESS,
        // Other commands exit with 2, which is a verdict of `clearway doctor`.
        _ if is_doctor => ExitCode::from(doctor::FAILED),
        status => ExitCode::from(status),
    }
}

async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(command) => demo::run(command).await,
        Command::Serve(command) => serve::run(*command).await,
        Command::Get(command) => get::run(*command).await,
        Command::Balance(command) => balance::run(*command).await,
        Command::Dns(command) => dns::run(*command).await,
        Command::Doctor(command) => doctor::run(command).await,
        Command::Link(command) => link::run(*command).await,
        Command::Proxy(command) => proxy::run(*command).await,
        Command::Tunnel(command) => tunnel::run(*command).await,
        Command::Lab(command) => lab::run(*command).await,
        Command::Probe(command) => probe::run(*command).await,
        Command::View(command) => view::run(*command).await,
        Command::Qlog(command) => qlog::run(&command),
        Command::Completions(command) => completions::run(&command),
        Command::Manual(command) => manual::run(&command),
    }
}

#[cfg(test)]
#[path = "shipped_tests.rs"]
mod shipped_tests;
