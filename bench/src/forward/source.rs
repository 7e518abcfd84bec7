//! Clients that send datagrams, each from its own address, as fast as possible or at a fixed rate,
//! regardless of whether the datagrams arrive.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use super::datagram::{self, HEADER_LEN, Header};
use crate::Outcome;
use crate::batches::{BATCH_BYTES, MAX_SEGMENTS, Socket};

#[derive(Args)]
pub(crate) struct SourceOptions {
    /// Destinations of the datagrams; clients are distributed over them in turn.
    #[arg(long, value_delimiter = ',', required = true)]
    connect: Vec<SocketAddr>,
    /// The QUIC-LB server IDs, in hexadecimal digits. Connections are assigned to the servers in
    /// turn.
    #[arg(long, value_delimiter = ',', required = true)]
    server_ids: Vec<String>,
    /// The length of the nonces of the connection IDs, in octets.
    #[arg(long, default_value_t = 6)]
    nonce_length: usize,
    /// Number of clients, each with a socket, an address of 127.0.0.0/8 and one connection.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// The number of the first client, so that two instances of this program use different clients.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=8192))]
    first_client: u16,
    /// The address of all clients, for a network other than loopback [default: one in 127.0.0.0/8
    /// for each].
    #[arg(long)]
    from: Option<Ipv4Addr>,
    /// UDP payload size of the datagrams.
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u16).range(HEADER_LEN as i64..))]
    size: u16,
    /// Number of datagrams of a connection per system call, limited by the kernel's maximum.
    #[arg(long, default_value_t = MAX_SEGMENTS)]
    batch: usize,
    /// Total number of datagrams per second from all clients [default: as many as possible].
    #[arg(long)]
    rate: Option<f64>,
    /// How long to send, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// A client: its socket, the destination, and the header of its datagrams.
struct Client {
    socket: Socket,
    destination: SocketAddr,
    header: Header,
}

/// Sends the datagrams, and prints their number and the time in seconds.
pub(super) fn run(options: &SourceOptions) -> Outcome {
    let clients = clients(options)?;
    let size = usize::from(options.size);
    let count = batch(size, options.batch);
    let mut datagrams = vec![0; count * size];
    let duration = Duration::from_secs_f64(options.seconds);
    let interval = interval(options.rate, count)?;
    let (mut sent, began) = (0, Instant::now());
    for (number, client) in (0..).zip(clients.iter().cycle()) {
        let due = interval * number;
        let elapsed = began.elapsed();
        if elapsed.max(due) >= duration {
            break;
        }
        // A late batch is sent immediately to maintain the rate.
        if due > elapsed {
            sleep(due - elapsed);
        }
        for datagram in datagrams.chunks_mut(size) {
            datagram[..HEADER_LEN].copy_from_slice(&client.header);
        }
        client.socket.send(client.destination, &datagrams, size)?;
        sent += count;
    }
    let elapsed = began.elapsed().max(duration);
    println!(r#"{{"sent":{sent},"seconds":{}}}"#, elapsed.as_secs_f64());
    Ok(())
}

fn clients(options: &SourceOptions) -> Outcome<Vec<Client>> {
    let (first, count) = (options.first_client, options.clients);
    let numbers = first..first + count;
    let end = u32::from(numbers.end);
    let headers = datagram::headers(end, &options.server_ids, options.nonce_length)?;
    let of_these = headers.into_iter().skip(first.into());
    let all = numbers.zip(of_these).zip(options.connect.iter().cycle());
    all.map(|((number, header), destination)| {
        let address = options.from.map_or(address(number), |from| (from, 0).into());
        Ok(Client { socket: Socket::bind(address)?, destination: *destination, header })
    })
    .collect()
}

/// Returns the local address of a client, with any free port.
fn address(client: u16) -> SocketAddr {
    let [high, low] = (client + 1).to_be_bytes();
    (Ipv4Addr::new(127, 1, high, low), 0).into()
}

/// Returns the number of datagrams of this size to send per system call: `wanted`, or the kernel's
/// maximum if that is less.
fn batch(size: usize, wanted: usize) -> usize {
    wanted.min(BATCH_BYTES / size).clamp(1, MAX_SEGMENTS)
}

/// Returns the interval between batches of `count` datagrams.
fn interval(rate: Option<f64>, count: usize) -> Outcome<Duration> {
    let seconds = rate.map_or(0.0, |rate| count as f64 / rate);
    match Duration::try_from_secs_f64(seconds) {
        Ok(interval) => Ok(interval),
        Err(_) => Err("the rate must be above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_the_kernel_takes() {
        assert_eq!(batch(1200, 64), 54);
        assert_eq!([batch(1200, 16), batch(100, 200), batch(1200, 0)], [16, 64, 1]);
        assert_eq!(batch(65_507, 64), 1);
    }

    #[test]
    fn a_rate_counts_datagrams() {
        assert_eq!(interval(Some(1000.0), 10).unwrap(), Duration::from_millis(10));
        assert_eq!(interval(None, 10).unwrap(), Duration::ZERO);
        assert!(interval(Some(0.0), 10).is_err() && interval(Some(-1.0), 10).is_err());
    }

    #[test]
    fn each_client_has_an_address() {
        assert_eq!(address(0).to_string(), "127.1.0.1:0");
        assert_eq!(address(511).to_string(), "127.1.2.0:0");
    }
}
