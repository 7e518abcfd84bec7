//! Clearway's side of the benchmarks: the command line of `interop/peers`, and `memory`.

mod memory;
mod pattern;
mod raw;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// UDP payload of full datagrams.
    #[arg(long, global = true, default_value_t = 1452, value_parser = clap::value_parser!(u16).range(1200..=65527))]
    mtu: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Answer each stream's 8-byte big-endian length with that many bytes (ALPN "perf").
    RawServer(ServerOptions),
    /// Ask for bytes on a raw stream (ALPN "perf"), check and count them.
    RawClient(RawClientOptions),
    /// Two endpoints in one process, joined by nothing: what the transport itself costs.
    Memory {
        /// How much to download.
        bytes: usize,
    },
    /// Write a throw-away certificate for localhost and its key.
    Certificate {
        /// The certificate's file, PEM.
        certificate: PathBuf,
        /// The key's file, PEM.
        key: PathBuf,
    },
}

#[derive(Args)]
struct ServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddr,
    /// Certificate chain, PEM.
    #[arg(long)]
    cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    key: PathBuf,
}

#[derive(Args)]
struct RawClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// Bytes to ask for.
    #[arg(long)]
    bytes: u64,
    /// Where the server listens; its certificate must say `localhost`.
    address: SocketAddr,
}

fn main() -> ExitCode {
    let Arguments { command, mtu } = Arguments::parse();
    let outcome = match command {
        Command::RawServer(options) => raw::serve(&options, mtu),
        Command::RawClient(options) => raw::download(&options, mtu),
        Command::Memory { bytes } => {
            memory::run(bytes);
            Ok(())
        }
        Command::Certificate { certificate, key } => tls::write_certificate(&certificate, &key),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("clearway-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
