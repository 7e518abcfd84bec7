//! Servers that only count received datagrams. A single thread receives in batches (GRO) on the
//! sockets of all servers.

use std::io::{Write, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use clap::Args;
use clearway_wire::preface::Preface;
use rustix::event::{PollFd, PollFlags, poll};

use super::datagram;
use crate::Outcome;
use crate::batches::{Received, Socket};

/// Number of receive calls on one socket before switching to the next one.
const CALLS: usize = 4;

#[derive(Args)]
pub(crate) struct SinkOptions {
    /// The address of the servers.
    #[arg(long, default_value = "127.0.0.1")]
    address: Ipv4Addr,
    /// Number of servers, each with a socket on a free port. Connections are assigned to them in
    /// turn.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    servers: u32,
}

/// Counters for received datagrams.
#[derive(Default, PartialEq, Debug)]
struct Counts {
    received: u64,
    /// Datagrams that reached a server to which their connection does not belong.
    misrouted: u64,
    /// Datagrams that the clients did not send.
    unreadable: u64,
    /// Datagrams with a preface that contains the client's address.
    prefaced: u64,
    /// Number of received batches.
    batches: u64,
    /// The times at which the first and the last datagram arrived.
    between: Option<[Instant; 2]>,
}

/// Prints the servers' addresses, and then the counters for each line on standard input, until
/// standard input closes.
pub(super) fn run(options: &SinkOptions) -> Outcome {
    let any = SocketAddr::from((options.address, 0));
    let sockets = (0..options.servers).map(|_| Socket::bind(any)).collect::<Outcome<Vec<_>>>()?;
    let addresses: Vec<String> =
        sockets.iter().map(|it| Ok(it.socket.local_addr()?.to_string())).collect::<Outcome<_>>()?;
    println!("listening {}", addresses.join(","));
    stdout().flush()?;
    let (input, mut line) = (stdin(), String::new());
    let mut watched = vec![PollFd::new(&input, PollFlags::IN)];
    watched.extend(sockets.iter().map(|it| PollFd::new(&it.socket, PollFlags::IN)));
    let (mut received, mut counts) = (Received::new(), Counts::default());
    loop {
        poll(&mut watched, None)?;
        for ((number, socket), watched) in (0..).zip(&sockets).zip(&watched[1..]) {
            if watched.revents().is_empty() {
                continue;
            }
            for _ in 0..CALLS {
                if !socket.receive(&mut received)? {
                    break;
                }
                counts.add_all(&mut received, number, options.servers);
            }
        }
        if !watched[0].revents().is_empty() {
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            println!("{}", counts.json());
            stdout().flush()?;
        }
    }
}

impl Counts {
    /// Counts the datagrams that server number `server` of `servers` has received.
    fn add_all(&mut self, received: &mut Received, server: u32, servers: u32) {
        for (_, batch, size) in received.batches() {
            self.batches += 1;
            for datagram in batch.chunks_mut(size) {
                self.add(datagram, server, servers);
            }
        }
        let now = Instant::now();
        self.between = Some([self.between.map_or(now, |[first, _]| first), now]);
    }

    fn add(&mut self, datagram: &mut [u8], server: u32, servers: u32) {
        self.received += 1;
        let datagram = match Preface::split(datagram) {
            Some((_, rest)) => {
                self.prefaced += 1;
                rest
            }
            None => datagram,
        };
        match datagram::connection(datagram) {
            Some(connection) if connection % servers == server => {}
            Some(_) => self.misrouted += 1,
            None => self.unreadable += 1,
        }
    }

    fn json(&self) -> String {
        let Self { received, misrouted, unreadable, prefaced, batches, between } = self;
        let seconds = between.map_or(0.0, |[first, last]| (last - first).as_secs_f64());
        format!(
            r#"{{"received":{received},"misrouted":{misrouted},"unreadable":{unreadable},"prefaced":{prefaced},"batches":{batches},"seconds":{seconds}}}"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_by_what_they_say() {
        let servers = ["0a01".to_owned(), "0a02".to_owned()];
        let headers = datagram::headers(2, &servers, 6).unwrap();
        let client = "127.1.0.1:5000".parse().unwrap();
        let (preface, length) = Preface { client, local: [127, 0, 0, 1].into() }.encode();
        let prefaced = [&preface[..length], &headers[1]].concat();
        let mut counts = Counts::default();
        for datagram in [&headers[0][..], &headers[1], &prefaced, b"other", &[]] {
            counts.add(&mut datagram.to_vec(), 1, 2);
        }
        let Counts { received, misrouted, unreadable, prefaced, .. } = counts;
        assert_eq!([received, misrouted, unreadable, prefaced], [5, 1, 2, 1]);
    }

    #[test]
    fn what_is_received_in_a_batch_is_counted_by_the_datagram() {
        let headers = datagram::headers(1, &["0a".to_owned()], 6).unwrap();
        let [sender, receiver] =
            [(), ()].map(|()| Socket::bind(([127, 0, 0, 1], 0).into()).unwrap());
        let batch = headers[0].repeat(3);
        sender.send(receiver.socket.local_addr().unwrap(), &batch, headers[0].len()).unwrap();
        let (mut received, mut counts) = (Received::new(), Counts::default());
        while counts.received < 3 {
            receiver.wait_patiently(PollFlags::IN).unwrap();
            assert!(receiver.receive(&mut received).unwrap());
            counts.add_all(&mut received, 0, 1);
        }
        assert_eq!((counts.received, counts.misrouted, counts.unreadable), (3, 0, 0));
        assert!(counts.json().starts_with(r#"{"received":3,"misrouted":0,"#), "{}", counts.json());
        assert!(!receiver.receive(&mut received).unwrap());
    }
}
