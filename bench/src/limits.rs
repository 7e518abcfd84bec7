//! The limits of this machine: packet protection, memory copies, and datagrams over loopback, each
//! alone and combined. `cargo xtask bench limits` runs these parts, each on its own core.

mod protection;
mod udp;

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, Subcommand};

use self::protection::Protection;
use crate::Outcome;
use crate::batches::{BATCH_BYTES, MAX_SEGMENTS};

/// Size of one copy, similar to a copy between a socket buffer and an application.
const COPY: usize = 64 << 10;
/// Size of the memory to copy from, which is larger than the caches.
const COLD: usize = 64 << 20;

#[derive(Subcommand)]
pub(crate) enum Part {
    /// Protect packets in place, as a sender does: AES-128-GCM and header protection.
    Seal(Options),
    /// Protect packets, and remove the protection in place; only this is measured.
    Open(Options),
    /// Copy 64 KiB at a time into new memory, from successive places in 64 MiB.
    Copy(Options),
    /// Send datagrams in batches (GSO), as fast as they arrive.
    Send(SendOptions),
    /// Receive datagrams in batches (GRO); the time starts with the first one.
    Receive(ReceiveOptions),
}

#[derive(Args)]
pub(crate) struct Options {
    /// UDP payload size of datagrams.
    #[arg(long, default_value_t = 1452, value_parser = clap::value_parser!(u16).range(1200..))]
    size: u16,
    /// Duration of the measurement in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

#[derive(Args)]
pub(crate) struct SendOptions {
    #[command(flatten)]
    options: Options,
    /// Destination of the datagrams.
    #[arg(long)]
    connect: SocketAddr,
    /// Protect every packet before it is sent.
    #[arg(long)]
    protected: bool,
}

#[derive(Args)]
pub(crate) struct ReceiveOptions {
    #[command(flatten)]
    options: Options,
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddr,
    /// Remove the protection of every packet that arrives.
    #[arg(long)]
    protected: bool,
}

impl Options {
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Returns the number of datagrams in a batch, and the batch's size in bytes.
    fn batch(&self) -> (usize, usize) {
        let size = usize::from(self.size);
        let count = (BATCH_BYTES / size).min(MAX_SEGMENTS);
        (count, count * size)
    }
}

/// Measures one part, and prints the number of bytes of datagrams (or of memory) that it processed,
/// and the time in seconds.
pub(crate) fn run(part: &Part) -> Outcome {
    let (bytes, elapsed) = match part {
        Part::Seal(options) => seal(options)?,
        Part::Open(options) => open(options)?,
        Part::Copy(options) => copy(options),
        Part::Send(options) => udp::send(options)?,
        Part::Receive(options) => udp::receive(options)?,
    };
    println!(r#"{{"bytes":{bytes},"seconds":{}}}"#, elapsed.as_secs_f64());
    Ok(())
}

fn seal(options: &Options) -> Outcome<(u64, Duration)> {
    let (size, mut batch) = (usize::from(options.size), vec![0; options.batch().1]);
    let mut sender = Protection::sender()?;
    let (mut bytes, began) = (0, Instant::now());
    while began.elapsed() < options.duration() {
        sender.seal_all(&mut batch, size)?;
        bytes += batch.len() as u64;
    }
    Ok((bytes, began.elapsed()))
}

fn open(options: &Options) -> Outcome<(u64, Duration)> {
    let (size, mut batch) = (usize::from(options.size), vec![0; options.batch().1]);
    let (mut sender, receiver) = (Protection::sender()?, Protection::receiver()?);
    let (mut bytes, mut spent) = (0, Duration::ZERO);
    while spent < options.duration() {
        sender.seal_all(&mut batch, size)?;
        let began = Instant::now();
        receiver.open_all(&mut batch, size)?;
        spent += began.elapsed();
        bytes += batch.len() as u64;
    }
    Ok((bytes, spent))
}

fn copy(options: &Options) -> (u64, Duration) {
    // Not zeros, because the kernel may map all zero pages to one page.
    let source: Vec<u8> = (0..COLD).map(|index| index as u8).collect();
    let (mut bytes, began) = (0, Instant::now());
    while began.elapsed() < options.duration() {
        for chunk in source.chunks(COPY) {
            black_box(Bytes::copy_from_slice(chunk));
            bytes += chunk.len() as u64;
        }
    }
    (bytes, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_the_kernel_takes_in_one_call() {
        let batch = |size| Options { size, seconds: 1.0 }.batch();
        assert_eq!(batch(1200), (54, 64_800));
        assert_eq!(batch(1452), (45, 65_340));
        assert_eq!(batch(8952), (7, 62_664));
    }

    #[test]
    fn what_is_sealed_can_be_opened_once() {
        let (mut sender, receiver) =
            (Protection::sender().unwrap(), Protection::receiver().unwrap());
        let mut batch = vec![7; 3 * 1452];
        sender.seal_all(&mut batch, 1452).unwrap();
        receiver.open_all(&mut batch, 1452).unwrap();
        assert!(receiver.open_all(&mut batch, 1452).is_err());
    }
}
