//! The data path of a load balancer: forwards clients' datagrams to servers, and the responses
//! back.
//!
//! A server that supports prefaces receives each datagram with a [preface](clearway_wire::preface)
//! that contains the client's address, and prepends one to each response. The server therefore
//! knows the client's address, and the balancer is stateless. Any other server receives the
//! unmodified datagrams, from a source port that identifies the client: [`Options::ports`].
//!
//! Each shard is one thread with its own sockets, and shares nothing with the others. The kernel
//! distributes clients among the shards by a hash of addresses and ports. A client's datagrams are
//! routed in the same way by every thread, provided that the [`Routing`] instances of all threads
//! make the same decisions.
//!
//! The kernel coalesces received datagrams (GRO). They are routed one by one, and datagrams of a
//! turn that have the same destination are sent together again (GSO). Datagrams from one client to
//! one server stay in order.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::num::NonZeroUsize;
//! use std::time::Duration;
//!
//! use clearway_forward::{Options, Routed, Routing, Target, spawn};
//! use clearway_units::Timestamp;
//!
//! /// There is one server, which is unaware of the balancer.
//! struct ToOne(SocketAddr);
//!
//! impl Routing for ToOne {
//!     fn route(&mut self, _: Timestamp, _: SocketAddr, _: SocketAddr, _: &[u8]) -> Routed {
//!         Routed::To(Target { server: self.0, has_preface: false, begins: true })
//!     }
//!
//!     fn observe(&mut self, _: Timestamp, _: SocketAddr, _: SocketAddr, _: &[u8]) {}
//!
//!     fn save(&mut self, _: Timestamp) -> Vec<u8> {
//!         Vec::new()
//!     }
//!
//!     fn restore(&mut self, _: Timestamp, _: &[u8]) {}
//!
//!     fn is_server(&self, _: SocketAddr) -> bool {
//!         false
//!     }
//! }
//!
//! let options = Options {
//!     listen: "127.0.0.1:0".parse().unwrap(),
//!     shards: NonZeroUsize::MIN,
//!     ports: NonZeroUsize::new(100).unwrap(),
//!     idle: Duration::from_secs(60),
//! };
//! let server = "192.0.2.1:443".parse().unwrap();
//! let forwarders = spawn(options, &mut |_| Box::new(ToOne(server)), None)?;
//! assert_ne!(forwarders.local_address().port(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

mod batch;
mod batches;
mod guarded;
mod handover_state;
mod loops;
mod ports;
mod shard;
mod shares;
mod socket_io;
mod statistics;
mod table;
mod to_clients;
mod to_servers;

#[cfg(not(target_os = "linux"))]
compile_error!("clearway-forward needs Linux");

use core::fmt;
use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use clearway_io::HotRestart;
use clearway_io::hand_over::{self, HandOver, Keeper, Predecessor, Prepared, Replaceable};
use clearway_udp::Socket;
use clearway_units::Timestamp;
use rustix::event::{EventfdFlags, eventfd};

use shard::Shard;
use statistics::SharedStatistics;
pub use statistics::{DirectionStatistics, Statistics};

/// Routes clients' datagrams to servers. Each thread has its own instance.
///
/// IPv4 addresses are passed as IPv4, even if an IPv6 socket received the datagram. Times are from
/// the thread's own clock. If a method panics, the datagram is dropped and a `tracing` event at
/// level ERROR reports it.
pub trait Routing: Send {
    /// Returns the action for a datagram, which is never empty, from `client` to `local`. The IP
    /// address of `local` is unspecified if it is unknown.
    fn route(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Routed;

    /// Called with a server's response to `client` before it is forwarded.
    fn observe(&mut self, now: Timestamp, server: SocketAddr, client: SocketAddr, datagram: &[u8]);

    /// Serializes the state for the same thread of the process that replaces this one.
    fn save(&mut self, now: Timestamp) -> Vec<u8>;

    /// Restores the state that the previous process has [saved](Self::save). It may come from
    /// another version of this program.
    fn restore(&mut self, now: Timestamp, saved: &[u8]);

    /// Returns whether a server with prefaces has this address. The responses of such a server
    /// specify the clients to which they are forwarded, so anyone who can send from such an address
    /// can reach any client through the balancer; the network must prevent this. Servers without
    /// prefaces are excluded; their responses reach only clients that have sent to them.
    fn is_server(&self, address: SocketAddr) -> bool;

    /// Called before each batch, for example to switch to a new configuration.
    fn turn(&mut self, now: Timestamp) {
        let _ = now;
    }
}

/// The action for a client's datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Routed {
    /// Forward the datagram to a server.
    To(Target),
    /// Respond with this datagram, which should not be longer than the original: the client's
    /// address may be spoofed.
    Reply(Vec<u8>),
    /// Forward the datagram to a server, and also respond with this datagram.
    ToWithReply(Target, Vec<u8>),
    /// Drop the datagram.
    Dropped,
}

/// The server to which a datagram is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The server's address.
    pub server: SocketAddr,
    /// Whether a [preface](clearway_wire::preface) is prepended to the datagram.
    pub has_preface: bool,
    /// Whether the datagram may begin a connection, or has a connection ID issued by the server. If
    /// a client has no source port yet, its other datagrams are forwarded only if enough ports are
    /// free ([`Options::ports`]). This is not needed for servers with prefaces.
    pub begins: bool,
}

/// Forwarder options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address that clients send to; port 0 selects any free port.
    pub listen: SocketAddr,
    /// Number of threads.
    pub shards: NonZeroUsize,
    /// Number of source ports that each thread uses for servers without prefaces. Each port is a
    /// socket, which is opened on demand. This is also the maximum number of concurrent clients per
    /// server and thread.
    ///
    /// A client that has used a connection ID from the server keeps its port until the client is
    /// [idle](Self::idle). The remaining ports, whether free or used by other clients, are shared
    /// as follows:
    ///
    /// * an IPv4 address, or an IPv6 prefix of 64 bits, can have four times as many ports as it
    ///   leaves for all others, which is four fifths of all ports if no other client has any.
    ///   Networks can have more: IPv4 /24 and IPv6 /56 eight times as many, IPv6 /48 sixteen times
    ///   as many;
    /// * clients about which nothing is known ([`Target::begins`]) can have at most a quarter of
    ///   the free ports.
    ///
    /// If no port is free, a new client takes the port of a client that has not used a connection
    /// ID from the server. Clients without a response from the server lose their ports first,
    /// beginning with the client that has been silent the longest. A network that has more than a
    /// quarter of these ports takes a port from one of its own clients. Datagrams of clients that
    /// get no port are dropped ([`dropped_no_port`](Statistics::dropped_no_port)).
    pub ports: NonZeroUsize,
    /// Time after a client's last datagram until its port becomes free. It should exceed the idle
    /// timeout of connections: if a client gets another port, the server sees this as an address
    /// change.
    pub idle: Duration,
}

/// Starts forwarding. `routing` creates the routing of each thread; threads are numbered from 0.
///
/// Each thread sends to servers with prefaces from several ports, 256 in total with up to 32
/// threads. Clients are distributed among these ports by a hash of their addresses, so that a
/// server's shards receive similar numbers of clients. The server's list of balancers must include
/// this host's address on the route to the server. A preface cannot contain an IPv6 link-local
/// address (fe80::/10), so datagrams of clients with such addresses are dropped
/// ([`dropped_unreachable`](DirectionStatistics::dropped_unreachable)).
///
/// A preface takes 11 bytes with IPv4, and 35 with IPv6. A datagram that exceeds the interface's
/// MTU because of its preface is dropped
/// ([`dropped_too_large`](DirectionStatistics::dropped_too_large)); clients and servers that
/// perform path MTU discovery (RFC 8899) adapt to this. Paths to the servers must carry packets of
/// 1,283 bytes.
///
/// If a socket has no room for a batch, the thread waits for up to 2 ms per turn of its loop, while
/// received datagrams are queued in the sockets. Then the batch is dropped
/// ([`dropped_no_room`](DirectionStatistics::dropped_no_room)).
///
/// With `hot_restart`, [created for a balancer](HotRestart::of_balancer_at), the forwarders replace
/// those of a running process, if there are any, and can be replaced themselves. When this returns,
/// the replaced forwarders have stopped receiving.
///
/// # Errors
/// Returns an error if an address cannot be bound, the system provides no descriptor or thread, or
/// the handover fails. The source of a handover error is a
/// [`HotRestartError`](clearway_io::HotRestartError); in that case, the running process is not
/// replaced and continues.
pub fn spawn(
    options: Options,
    routing: &mut dyn FnMut(usize) -> Box<dyn Routing>,
    hot_restart: Option<HotRestart>,
) -> io::Result<Forwarders> {
    let mut hot_restart = hot_restart;
    let inherited = match &mut hot_restart {
        Some(hot_restart) => hand_over::inherit(hot_restart, options.listen, options.shards.get())?,
        None => None,
    };
    let (listening, predecessors) = match inherited {
        Some(inherited) => adopt(inherited)?,
        None => (bind(&options)?, Vec::new()),
    };
    let local_address = listening.first().ok_or(io::ErrorKind::NotConnected)?.local_address();
    let signals = listening.iter().map(|_| Signal::new().map(Arc::new));
    let signals = signals.collect::<io::Result<Vec<_>>>()?;
    let prepare = |hot_restart: HotRestart| {
        let threads = listening.iter().zip(&signals).map(|(socket, signal)| {
            let duplicate = socket.as_fd().try_clone_to_owned()?;
            Ok((duplicate, signal.clone() as Arc<dyn Replaceable>))
        });
        hand_over::prepare(hot_restart, threads.collect::<io::Result<_>>()?)
    };
    let prepared = hot_restart.map(prepare).transpose()?;
    let mut predecessors = predecessors.into_iter();
    // All shards are created before the first thread runs, so that a failure leaves no threads
    // behind.
    let shards = listening.into_iter().zip(signals).enumerate();
    let shards = shards.map(|(number, (listening, signal))| {
        Shard::new(listening, &options, routing(number), signal, predecessors.next())
    });
    let shards = shards.collect::<io::Result<Vec<_>>>()?;
    let mut forwarders = Forwarders { local_address, threads: Vec::new(), keeper: None };
    for shard in shards {
        let signal = shard.signal().clone();
        let thread = thread::Builder::new().name("clearway-forward".to_owned());
        let thread = thread.spawn(move || shard.run())?;
        forwarders.threads.push(Running { signal, thread: Some(thread) });
    }
    forwarders.keeper = prepared.map(Prepared::take_over).transpose()?;
    Ok(forwarders)
}

/// Binds the sockets to which clients send, one per thread.
fn bind(options: &Options) -> io::Result<Vec<Socket>> {
    let first = Socket::bind(options.listen)?;
    let count = options.shards.get();
    if count > 1 {
        first.allow_shared_address()?;
    }
    let mut listening = vec![first];
    for _ in 1..count {
        listening.push(listening[0].bind_shared()?);
    }
    Ok(listening)
}

/// Adopts the sockets of the process that this one replaces, and the handover state of its threads.
fn adopt(inherited: Vec<(UdpSocket, Predecessor)>) -> io::Result<(Vec<Socket>, Vec<Predecessor>)> {
    let adopt = |(socket, predecessor)| Ok((Socket::bound(socket)?, predecessor));
    inherited.into_iter().map(adopt).collect()
}

/// The forwarding threads. Dropping this stops the threads and waits until they have ended.
#[derive(Debug)]
pub struct Forwarders {
    local_address: SocketAddr,
    threads: Vec<Running>,
    /// The listener for a process that replaces this one.
    keeper: Option<Keeper>,
}

#[derive(Debug)]
struct Running {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarders {
    /// Returns the address that clients send to.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Returns the statistics of each thread so far.
    pub fn statistics(&self) -> Vec<Statistics> {
        self.threads.iter().map(|it| it.signal.statistics.read()).collect()
    }
}

impl Drop for Forwarders {
    fn drop(&mut self) {
        // From here on, no other process can replace this one.
        self.keeper = None;
        self.threads.iter().for_each(|it| it.signal.end());
        for running in &mut self.threads {
            // A panic of the thread was reported when it happened.
            let _ = running.thread.take().map(JoinHandle::join);
        }
    }
}

/// State shared by a thread and its owner.
struct Signal {
    is_over: AtomicBool,
    inbox: Mutex<Inbox>,
    /// Wakes the thread when it must end, or when there is a command.
    event: OwnedFd,
    statistics: SharedStatistics,
}

#[derive(Default)]
struct Inbox {
    command: Option<Command>,
    /// Whether the thread has ended.
    is_closed: bool,
}

/// A command for a thread on behalf of another process.
enum Command {
    /// Hand over to the other process, which forwards from now on.
    HandOver(Box<HandOver>),
    /// Begin or resume forwarding in this process.
    Listen,
}

impl Signal {
    fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (is_over, statistics) = (AtomicBool::new(false), SharedStatistics::default());
        Ok(Self { is_over, inbox: Mutex::default(), event, statistics })
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    fn give(&self, command: Command) {
        let mut inbox = self.lock();
        if !inbox.is_closed {
            inbox.command = Some(command);
            self.wake();
        }
    }

    /// Marks the thread as ended. It accepts no more commands.
    fn close(&self) {
        *self.lock() = Inbox { command: None, is_closed: true };
    }

    /// Takes the latest command. This is called when the thread was woken, before
    /// [`is_over`](Self::is_over).
    fn take(&self) -> Option<Command> {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        self.lock().command.take()
    }

    fn wake(&self) {
        // If the counter is full, the thread is already being woken.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No code that panics runs while the lock is held.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Replaceable for Signal {
    fn hand_over(&self, hand_over: HandOver) {
        self.give(Command::HandOver(Box::new(hand_over)));
    }

    fn listen(&self) {
        self.give(Command::Listen);
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests;
