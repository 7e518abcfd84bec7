//! TCP in an IP tunnel while the path loses packets, compared with TCP on the same path without a
//! tunnel.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clearway_namespaces::{Namespace, ip};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, QueueLimit};
use clearway_network::{Way, Window};
use clearway_units::Rate;
use socket2::{Domain, Socket, Type};

use super::proxy_of;
use crate::support::{self, Server, Workspace, path::Path};

/// Size of each download, as in `clearway demo`.
const SIZE: usize = 10_000_000;

/// Number of downloads of each kind.
const RUNS: u64 = 3;

/// Time limit for each step of a download.
const LIMIT: Duration = Duration::from_secs(30);

const PROXY: &str = "10.77.1.1:4443";
const TARGET: &str = "10.77.2.2";

/// A time during which the path loses packets in both directions, from the first flight of the
/// response on.
struct Losses {
    name: &'static str,
    probability: f64,
    length: Duration,
}

/// The losses of `clearway demo`, and an outage.
const LOSSES: [Losses; 2] = [
    Losses { name: "collapse", probability: 0.3, length: Duration::from_secs(2) },
    Losses { name: "outage", probability: 1.0, length: Duration::from_secs(1) },
];

impl Losses {
    /// Returns a path with a round-trip time of 10 ms that delivers in slots, as in `clearway demo`,
    /// and a bottleneck that programs without optimization can saturate.
    fn link(&self, seed: u64) -> LinkConfig {
        let probability = Probability::new(self.probability).expect("a probability");
        let window =
            Window::AfterBytes { way: Way::ToClient, bytes: 6_000, length: Some(self.length) };
        let conditions = Conditions {
            delay: Duration::from_millis(5),
            tick: Some(Duration::from_millis(4)),
            rate: Some(Rate::from_bits_per_second(50_000_000)),
            queue: QueueLimit { packets: Some(100), bytes: None },
            loss: vec![LossRule { model: LossModel::Random { probability }, window }],
            ..Conditions::default()
        };
        LinkConfig {
            to_server: conditions.clone(),
            to_client: conditions,
            seed,
            ..LinkConfig::default()
        }
    }
}

/// A client, a proxy behind the path, and a target behind the proxy.
struct Site {
    client: Namespace,
    proxy: Namespace,
    target: Namespace,
    path: Path,
}

fn run(arguments: &str) {
    ip(&arguments.split(' ').collect::<Vec<_>>()).expect("ip");
}

impl Site {
    /// Creates the hosts. Returns `None` if that is not permitted here.
    fn new() -> Option<Self> {
        let hosts = [(); 3].map(|()| Namespace::create());
        let [Ok(client), Ok(proxy), Ok(target)] = hosts else {
            println!("skipped: no network namespaces here");
            return None;
        };
        let path = Path::new((&client, "10.77.1.2/24"), (&proxy, "10.77.1.1/24"));
        client.run(|| run("route add default dev path")).expect("the client");
        let process = target.process();
        proxy
            .run(|| {
                run(&format!("link add near type veth peer name far netns {process}"));
                run("addr add 10.77.2.1/24 dev near");
                run("link set near up");
                fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("ip_forward");
            })
            .expect("the proxy");
        target
            .run(|| {
                run("addr add 10.77.2.2/24 dev far");
                run("link set far up");
                run("route add default via 10.77.2.1");
            })
            .expect("the target");
        Some(Self { client, proxy, target, path })
    }

    fn start_proxy(&self, workspace: &Workspace) -> Server {
        let options = ["--listen", PROXY, "--open", "--ip-pool", "10.99.0.0/24"];
        let policy = ["--allow", "10.77.2.0/24", "--quiet", "--shutdown-timeout", "1s"];
        let options = [&["proxy"], &options[..], &policy].concat();
        let start = || proxy_of(support::clearway(), workspace, &options);
        self.proxy.run(start).expect("the proxy")
    }

    fn start_tunnel(&self) -> Server {
        let mut command = support::clearway();
        command.args(["tunnel", "--proxy", &format!("https://{PROXY}"), "--proxy-insecure"]);
        command.args(["--route", "10.77.2.0/24"]).stderr(Stdio::inherit());
        self.client.run(|| Server::start(&mut command)).expect("the client")
    }

    /// Downloads from the target, and returns the time that this took. The losses begin with the
    /// first flight of the response.
    fn download(&mut self, losses: &Losses, seed: u64) -> Duration {
        self.path.set(losses.link(seed));
        let listener = self.target.run(listen).expect("the target");
        let address = listener.local_addr().expect("an address").as_socket();
        let address = address.expect("an IP address");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().expect("a connection");
                let mut stream = TcpStream::from(stream);
                stream.set_write_timeout(Some(LIMIT)).expect("a timeout");
                stream.write_all(&content()).expect("the client reads");
            });
            self.client.run(|| receive(address)).expect("the client")
        })
    }
}

fn content() -> Vec<u8> {
    (0..SIZE as u32).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Listens with CUBIC, since hosts have different defaults.
fn listen() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_tcp_congestion(b"cubic").expect("CUBIC");
    let address: SocketAddr = SocketAddr::new(TARGET.parse().expect("an address"), 0);
    socket.bind(&address.into()).expect("an address");
    socket.listen(1).expect("a listener");
    socket
}

fn receive(address: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).expect("the target");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let mut received = Vec::with_capacity(SIZE);
    stream.read_to_end(&mut received).expect("the target sends");
    let elapsed = began.elapsed();
    assert!(received == content(), "{} bytes differ", received.len());
    elapsed
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// When the losses end, both TCP and the QUIC connection outside may be waiting for a timeout. Each
/// timeout is at most as long as the silence before it: QUIC's may add the length of the losses, and
/// TCP's, whose retransmissions are lost until then, the same again.
#[test]
fn tcp_in_a_tunnel_recovers_as_fast_as_without() {
    let Some(mut site) = Site::new() else { return };
    let workspace = Workspace::new("masque-collapse", 0);
    let mut times = [(); 2].map(|()| LOSSES.map(|_| Vec::new()));
    let mut measure = |site: &mut Site, place: usize| {
        for (losses, times) in LOSSES.iter().zip(&mut times[place]) {
            times.extend((1..=RUNS).map(|seed| site.download(losses, seed)));
        }
    };
    measure(&mut site, 0);
    site.path.set(LinkConfig::default());
    let _proxy = site.start_proxy(&workspace);
    let _tunnel = site.start_tunnel();
    measure(&mut site, 1);
    let [direct, tunneled] = times;
    for (losses, (direct, tunneled)) in LOSSES.iter().zip(direct.into_iter().zip(tunneled)) {
        let name = losses.name;
        println!("{name}: {direct:.2?} without the tunnel, {tunneled:.2?} through it");
        let (direct, tunneled) = (median(direct), median(tunneled));
        assert!(tunneled <= direct + 2 * losses.length, "{name}: {direct:.2?}, {tunneled:.2?}");
    }
}
