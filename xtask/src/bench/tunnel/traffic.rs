//! Traffic from the client to the target: TCP downloads and UDP echoes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::site::{Site, TARGET};
use crate::waiting::wait_until;

/// Time limit for each read and write, and for the tunnel to be usable.
const LIMIT: Duration = Duration::from_secs(20);
/// Time after which an echo counts as lost.
const LOST: Duration = Duration::from_millis(500);
/// Length of an echo in bytes.
const LENGTH: usize = 64;

/// Round-trip times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) median: f64,
    /// The 99th percentile.
    pub(super) slowest: f64,
    /// Number of echoes that did not return.
    pub(super) lost: usize,
}

fn failed(error: io::Error) -> String {
    format!("traffic through the tunnel: {error}")
}

fn target() -> Result<SocketAddr, String> {
    Ok(SocketAddr::new(TARGET.parse().map_err(|error| format!("{TARGET}: {error}"))?, 0))
}

/// Receives over TCP with CUBIC for this long. Returns the number of bytes and of seconds.
pub(super) fn download(site: &Site, time: Duration) -> Result<(f64, f64), String> {
    let address = target()?;
    let listen = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tcp_congestion(b"cubic")?;
        socket.bind(&address.into())?;
        socket.listen(1)?;
        Ok(socket)
    };
    let listener: Socket = site.target.run(listen).flatten().map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?.as_socket().ok_or("no address")?;
    std::thread::scope(|scope| {
        scope.spawn(|| -> io::Result<()> {
            let mut stream = TcpStream::from(listener.accept()?.0);
            stream.set_write_timeout(Some(LIMIT))?;
            let content = [0; 1 << 16];
            // Ends when the client closes the connection.
            loop {
                stream.write_all(&content)?;
            }
        });
        site.client.run(|| receive(address, time)).flatten().map_err(failed)
    })
}

fn receive(address: SocketAddr, time: Duration) -> io::Result<(f64, f64)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut buffer = vec![0; 1 << 18];
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed() < time {
        bytes += match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => length,
        };
    }
    Ok((bytes as f64, began.elapsed().as_secs_f64()))
}

/// Waits until the tunnel carries packets in both directions.
pub(super) fn await_echo(site: &Site) -> Result<(), String> {
    match wait_until(LIMIT, || Ok(latency(site, 1)?.lost == 0))? {
        true => Ok(()),
        false => Err("the tunnel carries no packets; see target/bench/tunnel.log".to_owned()),
    }
}

/// Sends UDP echoes one after the other.
pub(super) fn latency(site: &Site, count: usize) -> Result<Latency, String> {
    let address = target()?;
    let echo = site.target.run(|| UdpSocket::bind(address)).flatten().map_err(failed)?;
    let address = echo.local_addr().map_err(failed)?;
    echo.set_read_timeout(Some(LIMIT)).map_err(failed)?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; LENGTH];
            while let Ok((length, from)) = echo.recv_from(&mut buffer) {
                // The end of the measurement, which may arrive more than once.
                if length == 0 {
                    return;
                }
                let _ = echo.send_to(&buffer[..length], from);
            }
        });
        let times = site.client.run(|| echoes(address, count)).flatten().map_err(failed);
        // Directly, so that it is not lost.
        let end = site.server.run(|| UdpSocket::bind("0.0.0.0:0")?.send_to(&[], address));
        end.flatten().map_err(failed)?;
        let times = times?;
        let lost = count - times.len();
        let at = |share: usize| times.get(times.len() * share / 100).copied();
        let [median, slowest] = [50, 99].map(|share| at(share).unwrap_or(f64::NAN));
        Ok(Latency { median, slowest, lost })
    })
}

/// Returns the sorted round-trip times of the echoes that returned, in milliseconds.
fn echoes(address: SocketAddr, count: usize) -> io::Result<Vec<f64>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LOST))?;
    let (mut times, mut buffer) = (Vec::new(), [0; LENGTH]);
    for number in 0..count {
        let mut content = [0; LENGTH];
        content[..8].copy_from_slice(&number.to_be_bytes());
        let began = Instant::now();
        // No route yet.
        if socket.send(&content).is_err() {
            continue;
        }
        // A late echo of an earlier number is skipped.
        while began.elapsed() < LOST && socket.recv(&mut buffer).is_ok() {
            if buffer == content {
                times.push(began.elapsed().as_secs_f64() * 1e3);
                break;
            }
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
