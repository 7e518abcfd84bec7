//! An HTTP/3 and raw-stream server and client on s2n-quic and h3, for tests and benchmarks.

#![forbid(unsafe_code)]

mod endpoint;
mod handshakes;
mod interop;
mod raw;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use peer_common::{
    DatagramOptions, HandshakesOptions, RawClientOptions, RawServerOptions, UNSUPPORTED,
};

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    datagrams: DatagramOptions,
}

#[derive(Subcommand)]
enum Command {
    /// Make handshakes (ALPN "perf"), and print how long each took.
    Handshakes(HandshakesOptions),
    /// Serve as `raw-server` does, with X25519MLKEM768 and tickets for resumption.
    HandshakesServer(RawServerOptions),
    /// Do what the public interop runner's variables in the environment ask for.
    Interop,
    /// Read an 8-byte big-endian length and an upload from each stream, and send that many bytes (ALPN "perf").
    RawServer(RawServerOptions),
    /// Download or upload on raw streams (ALPN "perf"), and check and count the bytes.
    RawClient(RawClientOptions),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(UNSUPPORTED),
        Err(error) => {
            eprintln!("s2n-quic: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `false` if what the environment asks for is not supported.
async fn run(Arguments { command, datagrams }: Arguments) -> Result<bool> {
    let mtu = datagrams.mtu;
    match command {
        Command::Handshakes(options) => handshakes::make(&options, mtu).await?,
        Command::HandshakesServer(options) => handshakes::serve(&options, mtu).await?,
        Command::Interop => return interop::run().await,
        Command::RawServer(options) => raw::serve(&options, mtu).await?,
        Command::RawClient(options) => raw::transfer(&options, mtu).await?,
    }
    Ok(true)
}
