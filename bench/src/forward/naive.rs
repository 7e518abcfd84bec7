//! Typical simple forwarding loops: one thread receives a datagram, looks up its client, and
//! forwards the datagram. There is no forwarding to clients, because the servers do not respond.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::spin_loop;
use std::io::{IoSlice, IoSliceMut, Write, stdout};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use rustix::net::sockopt::{set_socket_recv_buffer_size, socket_recv_buffer_size};

use super::datagram;
use crate::{Outcome, attached};

/// Maximum number of datagrams per recvmmsg or sendmmsg call.
const BATCH: usize = 64;
/// Maximum size of a forwarded datagram; without jumbo frames, no datagram is larger.
const BUFFER_SIZE: usize = 2048;

#[derive(Clone, Copy, ValueEnum)]
enum Method {
    /// One system call to receive a datagram, and one to send it.
    Recvfrom,
    /// Up to 64 datagrams per system call.
    Recvmmsg,
}

#[derive(Args)]
pub(crate) struct LoopOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    listen: SocketAddrV4,
    /// The addresses of the servers. The first octets of a client's connection ID select its
    /// server.
    #[arg(long, value_delimiter = ',', required = true)]
    servers: Vec<SocketAddrV4>,
    /// How datagrams are received and sent.
    #[arg(long, value_enum, default_value_t = Method::Recvfrom)]
    method: Method,
    /// Microseconds of extra work for each datagram.
    #[arg(long, default_value_t = 0)]
    work_us: u64,
    /// The size of the receive buffer in bytes, as the kernel counts it [default: the kernel's].
    #[arg(long)]
    receive_buffer: Option<usize>,
}

pub(super) fn run(options: &LoopOptions) -> Outcome {
    let socket = UdpSocket::bind(options.listen)?;
    if let Some(bytes) = options.receive_buffer {
        set_receive_buffer(&socket, bytes)?;
    }
    println!("listening {}", socket.local_addr()?);
    stdout().flush()?;
    attached::end_with_input();
    let table = Table { servers: options.servers.clone(), clients: HashMap::new() };
    let work = Duration::from_micros(options.work_us);
    match options.method {
        Method::Recvfrom => one_at_a_time(&socket, table, work),
        Method::Recvmmsg => many_at_a_time(&socket, table, work),
    }
}

/// Sets the receive buffer size. The kernel doubles the value for its own bookkeeping (socket(7)).
fn set_receive_buffer(socket: &UdpSocket, bytes: usize) -> Outcome {
    set_socket_recv_buffer_size(socket, bytes / 2)?;
    match socket_recv_buffer_size(socket)? {
        given if given == bytes => Ok(()),
        given => {
            Err(format!("the kernel set the receive buffer to {given} bytes, not {bytes}").into())
        }
    }
}

/// A table with the server of each client.
struct Table {
    servers: Vec<SocketAddrV4>,
    clients: HashMap<SocketAddr, SocketAddrV4>,
}

impl Table {
    fn server(&mut self, client: SocketAddr, datagram: &[u8]) -> SocketAddrV4 {
        let servers = &self.servers;
        *self.clients.entry(client).or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            datagram::id_prefix(datagram).hash(&mut hasher);
            servers[(hasher.finish() % servers.len() as u64) as usize]
        })
    }
}

fn be_busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        spin_loop();
    }
}

fn one_at_a_time(socket: &UdpSocket, mut table: Table, work: Duration) -> Outcome {
    let mut buffer = [0; BUFFER_SIZE];
    loop {
        forward_one(socket, &mut buffer, &mut table)?;
        be_busy(work);
    }
}

fn forward_one(socket: &UdpSocket, buffer: &mut [u8], table: &mut Table) -> Outcome {
    let (length, client) = socket.recv_from(buffer)?;
    let datagram = &buffer[..length];
    socket.send_to(datagram, table.server(client, datagram))?;
    Ok(())
}

fn many_at_a_time(socket: &UdpSocket, mut table: Table, work: Duration) -> Outcome {
    let mut batch = Batch::new();
    loop {
        let received = batch.receive(socket)?;
        be_busy(work * u32::try_from(received)?);
        batch.send(socket, &mut table)?;
    }
}

/// Datagrams that are received in one call and sent in another.
struct Batch {
    memory: Vec<u8>,
    receiving: MultiHeaders<SockaddrIn>,
    sending: MultiHeaders<SockaddrIn>,
    /// The length and sender of each datagram.
    received: Vec<(usize, SocketAddrV4)>,
}

impl Batch {
    fn new() -> Self {
        Self {
            memory: vec![0; BATCH * BUFFER_SIZE],
            receiving: MultiHeaders::preallocate(BATCH, None),
            sending: MultiHeaders::preallocate(BATCH, None),
            received: Vec::new(),
        }
    }

    /// Waits for one datagram, and receives all that are available at that time. Returns their
    /// number.
    fn receive(&mut self, socket: &UdpSocket) -> Outcome<usize> {
        let Self { memory, receiving, received, .. } = self;
        let buffers = memory.chunks_mut(BUFFER_SIZE);
        let mut buffers: Vec<_> = buffers.map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        let all = recvmmsg(socket.as_raw_fd(), receiving, buffers.iter_mut(), flags, None)?;
        received.clear();
        received.extend(all.filter_map(|it| Some((it.bytes, it.address?.into()))));
        Ok(received.len())
    }

    /// Forwards the datagrams of the batch.
    fn send(&mut self, socket: &UdpSocket, table: &mut Table) -> Outcome {
        let Self { memory, sending, received, .. } = self;
        let (mut slices, mut servers) = (Vec::new(), Vec::new());
        for (buffer, (length, client)) in memory.chunks(BUFFER_SIZE).zip(received.iter()) {
            let datagram = &buffer[..*length];
            slices.push([IoSlice::new(datagram)]);
            servers.push(Some(SockaddrIn::from(table.server((*client).into(), datagram))));
        }
        let mut sent = 0;
        while sent < slices.len() {
            let (slices, servers) = (&slices[sent..], &servers[sent..]);
            let flags = MsgFlags::empty();
            sent += sendmmsg(socket.as_raw_fd(), sending, slices, servers, [], flags)?.count();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound() -> (UdpSocket, SocketAddrV4) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else { panic!("not IPv4") };
        (socket, address)
    }

    fn table(servers: &[SocketAddrV4]) -> Table {
        Table { servers: servers.to_vec(), clients: HashMap::new() }
    }

    #[test]
    fn a_client_keeps_its_server() {
        let (_, a) = bound();
        let (_, b) = bound();
        let mut table = table(&[a, b]);
        let client = |port| SocketAddr::from(([127, 1, 0, 1], port));
        let first: Vec<_> =
            (0..64).map(|number: u8| table.server(client(number.into()), &[number; 20])).collect();
        assert!(first.contains(&a) && first.contains(&b));
        for (number, server) in (0..).zip(first) {
            assert_eq!(table.server(client(number), b"another connection ID"), server);
        }
    }

    #[test]
    fn both_methods_forward_what_arrives() {
        let ((proxy, address), (server, target), (client, _)) = (bound(), bound(), bound());
        let mut table = table(&[target]);
        let mut buffer = [0; BUFFER_SIZE];
        client.send_to(b"a datagram", address).unwrap();
        forward_one(&proxy, &mut buffer, &mut table).unwrap();
        assert_eq!(server.recv(&mut buffer).unwrap(), 10);
        let mut batch = Batch::new();
        for datagram in [&b"one"[..], b"three", b""] {
            client.send_to(datagram, address).unwrap();
        }
        let mut count = 0;
        while count < 3 {
            count += batch.receive(&proxy).unwrap();
            batch.send(&proxy, &mut table).unwrap();
        }
        let lengths = [(); 3].map(|()| server.recv(&mut buffer).unwrap());
        assert_eq!((count, lengths), (3, [3, 5, 0]));
        assert_eq!(&buffer[..5], b"three");
    }

    #[test]
    fn a_receive_buffer_is_as_the_kernel_counts_it() {
        let (socket, _) = bound();
        set_receive_buffer(&socket, 100_000).unwrap();
        assert_eq!(socket_recv_buffer_size(&socket).unwrap(), 100_000);
        assert!(set_receive_buffer(&socket, usize::MAX).is_err());
    }
}
