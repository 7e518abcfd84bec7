//! The program whose socket is observed. It receives, and spends some time on each datagram. It
//! runs as a separate process of this program, `xtask doctor-reader`, that can be stopped,
//! throttled and owned by another user.

use std::collections::BTreeMap;
use std::io::{Write, stdin, stdout};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clearway_doctor::{Application, Collector, Reading, Scope, diagnose_for};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_reuseport};
use rustix::net::{RecvFlags, recv};
use rustix::thread::{CpuSet, sched_setaffinity, set_name};
use socket2::{Domain, SockFilter, SockRef, Socket, Type};

/// Maximum size of the datagrams that the tests send.
const BUFFER_SIZE: usize = 2048;
/// Receive buffer size of a reader that does not expect GRO batches.
const SMALL_BUFFER: usize = 1500;
/// Interval between snapshots if the doctor runs inside the reader.
const INTERVAL: Duration = Duration::from_millis(100);
/// `return 0` in classic BPF: the socket accepts no datagrams.
const REJECT: u16 = 0x06;

/// How the program behaves.
#[derive(clap::Args, Clone, PartialEq, Debug)]
pub(crate) struct Reader {
    pub(super) listen: SocketAddrV4,
    /// Number of sockets that share the port, each with a thread
    #[arg(long, default_value_t = 1)]
    pub(super) sockets: usize,
    /// Microseconds of work for each datagram
    #[arg(long, default_value = "0", value_parser = microseconds)]
    pub(super) work: Duration,
    /// Requested SO_RCVBUF in bytes; the default is the kernel's
    #[arg(long)]
    pub(super) buffer: Option<usize>,
    /// Pin the program to this CPU
    #[arg(long)]
    pub(super) cpu: Option<usize>,
    /// Attach a filter that rejects all datagrams
    #[arg(long)]
    pub(super) rejects: bool,
    /// Receive GRO batches into a buffer that is too small for them
    #[arg(long)]
    pub(super) truncates: bool,
    /// Run the doctor's engine inside the program, and report the program's own losses to it
    #[arg(long)]
    pub(super) carries: bool,
}

fn microseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_micros)
}

impl Reader {
    /// Returns a fast reader with a large buffer.
    pub(super) fn quick(listen: SocketAddrV4) -> Self {
        Self {
            listen,
            sockets: 1,
            work: Duration::ZERO,
            buffer: Some(4 << 20),
            cpu: None,
            rejects: false,
            truncates: false,
            carries: false,
        }
    }

    /// Returns a reader that spends `work` on each datagram, with the kernel's default buffer size.
    pub(super) fn busy(listen: SocketAddrV4, work: Duration) -> Self {
        Self { work, buffer: None, ..Self::quick(listen) }
    }

    /// Returns the program arguments for a reader with these settings.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all = vec!["doctor-reader".to_owned(), self.listen.to_string()];
        all.push(format!("--sockets={}", self.sockets));
        all.push(format!("--work={}", self.work.as_micros()));
        all.extend(self.buffer.map(|bytes| format!("--buffer={bytes}")));
        all.extend(self.cpu.map(|cpu| format!("--cpu={cpu}")));
        all.extend(self.rejects.then(|| "--rejects".to_owned()));
        all.extend(self.truncates.then(|| "--truncates".to_owned()));
        all.extend(self.carries.then(|| "--carries".to_owned()));
        all
    }
}

/// Receives datagrams until standard input closes.
pub(crate) fn run(reader: &Reader) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("doctor-reader at {}: {error}", reader.listen);
    // The doctor reports the process's name.
    let _ = set_name(c"doctor-reader");
    if let Some(cpu) = reader.cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|error| failed(error.into()))?;
    }
    let counts = Arc::new(Counts::default());
    for _ in 0..reader.sockets {
        let socket = open(reader).map_err(failed)?;
        let (work, truncates, counts) = (reader.work, reader.truncates, counts.clone());
        std::thread::spawn(move || receive(&socket, work, truncates, &counts));
    }
    println!("listening {}", reader.listen);
    stdout().flush().map_err(failed)?;
    for line in stdin().lines() {
        let seconds = line.map_err(failed)?.parse().map_err(|_| "expected seconds".to_owned())?;
        if reader.carries {
            println!("{}", examine(seconds, &counts)?);
            stdout().flush().map_err(failed)?;
        }
    }
    Ok(())
}

/// The reader's own counters.
#[derive(Default)]
struct Counts {
    received: AtomicU64,
    truncated: AtomicU64,
}

impl Counts {
    fn application(&self) -> Application {
        Application {
            process: std::process::id(),
            received: self.received.load(Ordering::Relaxed),
            truncated: self.truncated.load(Ordering::Relaxed),
            ..Application::default()
        }
    }
}

/// Runs the doctor inside this program for `seconds`, and returns the verdict as JSON.
fn examine(seconds: f64, counts: &Arc<Counts>) -> Result<String, String> {
    let told = counts.clone();
    let applications =
        move || Reading::Seen(BTreeMap::from([("doctor-reader".to_owned(), told.application())]));
    let mut collector = Collector::of_process(std::process::id()).with_applications(applications);
    let (began, mut snapshots) = (Instant::now(), Vec::new());
    while began.elapsed().as_secs_f64() < seconds {
        snapshots.push(collector.collect());
        sleep(INTERVAL);
    }
    let scope = Scope::Own { process: std::process::id() };
    serde_json::to_string(&diagnose_for(&snapshots, scope)).map_err(|error| error.to_string())
}

fn open(reader: &Reader) -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    set_socket_reuseport(&socket, reader.sockets > 1)?;
    if let Some(bytes) = reader.buffer {
        // The kernel grants a smaller buffer if it does not allow this size.
        set_socket_recv_buffer_size(&socket, bytes)?;
    }
    if reader.rejects {
        SockRef::from(&socket).attach_filter(&[SockFilter::new(REJECT, 0, 0, 0)])?;
    }
    if reader.truncates {
        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    }
    socket.bind(&SocketAddr::from(reader.listen).into())?;
    Ok(socket.into())
}

fn receive(socket: &UdpSocket, work: Duration, truncates: bool, counts: &Counts) {
    let mut buffer = [0; BUFFER_SIZE];
    let room = if truncates { SMALL_BUFFER } else { BUFFER_SIZE };
    // The error is due to a received ICMP message; the socket is still usable.
    loop {
        let Ok((_, length)) = recv(socket, &mut buffer[..room], RecvFlags::TRUNC) else { continue };
        counts.received.fetch_add(1, Ordering::Relaxed);
        if length > room {
            counts.truncated.fetch_add(1, Ordering::Relaxed);
        }
        let until = Instant::now() + work;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    #[test]
    fn a_reader_is_what_its_arguments_say() {
        let listen = "10.0.0.2:4433".parse().unwrap();
        let quick = Reader::quick(listen);
        let work = Duration::from_micros(200);
        let group =
            Reader { sockets: 4, cpu: Some(1), carries: true, ..Reader::busy(listen, work) };
        for reader in [quick, group] {
            let arguments = reader.arguments();
            let words: Vec<&str> = arguments[1..].iter().map(String::as_str).collect();
            assert_eq!(parse::<Reader>(&words).unwrap(), reader);
        }
    }
}
