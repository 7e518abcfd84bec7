//! A concurrent download over the kernel's TCP with CUBIC, next to the measured one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Instant;

use socket2::{Domain, Socket, Type};

use crate::environment::{Environment, Place};

const PORT: u16 = 5201;

/// A running TCP download.
#[derive(Debug)]
pub(crate) struct CrossTraffic {
    /// The server's and the client's ends of the connection.
    ends: [TcpStream; 2],
    started: Instant,
    sending: Option<JoinHandle<()>>,
    receiving: Option<JoinHandle<u64>>,
}

impl CrossTraffic {
    /// Connects client and server, and starts to send from the server to the client.
    pub(crate) fn start(environment: &Environment) -> io::Result<Self> {
        let server = SocketAddr::new(environment.connect.ip(), PORT);
        let listener = environment.at(Place::Server, listen)??;
        let receiver = environment.at(Place::Client, || TcpStream::connect(server))??;
        let (sender, _) = listener.accept()?;
        let ends = [sender.try_clone()?, receiver.try_clone()?];
        let sending = Some(std::thread::spawn(move || send(sender)));
        let receiving = Some(std::thread::spawn(move || receive(receiver)));
        Ok(Self { ends, started: Instant::now(), sending, receiving })
    }

    /// Stops the download, and returns its rate in kilobits per second.
    pub(crate) fn stop(mut self) -> io::Result<f64> {
        let seconds = self.started.elapsed().as_secs_f64();
        self.disconnect();
        let bytes = self.receiving.take().and_then(|thread| thread.join().ok());
        let bytes = bytes.ok_or_else(|| io::Error::other("the cross-traffic thread panicked"))?;
        Ok(bytes as f64 * 8.0 / 1e3 / seconds)
    }

    /// Makes both threads exit. Errors are ignored: they mean that a socket is already shut down.
    fn disconnect(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for CrossTraffic {
    fn drop(&mut self) {
        self.disconnect();
        let _ = self.sending.take().map(JoinHandle::join);
        let _ = self.receiving.take().map(JoinHandle::join);
    }
}

fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Accepted connections inherit this setting.
    socket.set_tcp_congestion(b"cubic")?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
    socket.listen(1)?;
    Ok(socket.into())
}

fn send(mut stream: TcpStream) {
    let zeros = [0; 1 << 16];
    while stream.write_all(&zeros).is_ok() {}
}

fn receive(mut stream: TcpStream) -> u64 {
    let mut buffer = vec![0; 1 << 16];
    let mut received = 0;
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        received += length as u64;
    }
    received
}
