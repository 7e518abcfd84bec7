//! Tests of `clearway tunnel` with `clearway proxy --ip-pool`, in three network namespaces: a client,
//! the proxy, and a target behind the proxy.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clearway_namespaces::{Namespace, ip};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recvfrom, sendto, socket,
};

use crate::metrics::Samples;
use crate::support::{Running, Scratch, clearway};

const LIMIT: Duration = Duration::from_secs(20);
const PROXY: &str = "10.77.1.1";
const TARGETS: [&str; 2] = ["10.77.2.2", "fd77:2::2"];
/// The first addresses of the pool that clients get.
const CLIENTS: [&str; 2] = ["10.99.0.2", "fd00:99::2"];

/// Three hosts in a row.
struct Site {
    client: Namespace,
    proxy: Namespace,
    target: Namespace,
    scratch: Scratch,
}

fn run(arguments: &str) {
    ip(&arguments.split(' ').collect::<Vec<_>>()).unwrap();
}

/// Sets an address of each IP version, and brings the interface up.
fn configure(link: &str, net: u8, host: u8) {
    run(&format!("addr add 10.77.{net}.{host}/24 dev {link}"));
    run(&format!("addr add fd77:{net}::{host}/64 dev {link} nodad"));
    run(&format!("link set {link} up"));
    run("link set lo up");
}

impl Site {
    /// Creates the hosts. Returns `None` if that is not permitted here.
    fn new(name: &str) -> Option<Self> {
        let hosts = [(); 3].map(|()| Namespace::create());
        let [Ok(client), Ok(proxy), Ok(target)] = hosts else {
            eprintln!("skipped: no network namespaces here");
            return None;
        };
        let scratch = Scratch::new(name);
        let within = |host: &Namespace, action: &(dyn Fn() + Sync)| host.run(action).unwrap();
        within(&proxy, &|| {
            let (client, target) = (client.process(), target.process());
            run(&format!("link add cwc type veth peer name cwp netns {client}"));
            run(&format!("link add cwt type veth peer name cwp netns {target}"));
            configure("cwc", 1, 1);
            configure("cwt", 2, 1);
            for forwarding in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                fs::write(format!("/proc/sys/net/{forwarding}"), "1").unwrap();
            }
        });
        within(&client, &|| {
            configure("cwp", 1, 2);
            // Permits ICMP sockets.
            fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
        });
        within(&target, &|| {
            configure("cwp", 2, 2);
            run("route add default via 10.77.2.1");
            run("-6 route add default via fd77:2::1");
        });
        let certified = rcgen::generate_simple_self_signed(vec![PROXY.into()]).unwrap();
        fs::write(scratch.path("proxy.pem"), certified.cert.pem()).unwrap();
        fs::write(scratch.path("proxy.key"), certified.signing_key.serialize_pem()).unwrap();
        Some(Self { client, proxy, target, scratch })
    }

    /// Starts the proxy, which permits the target and no other private address.
    fn start_proxy(&self, more: &[&str]) -> Running {
        let (certificate, key) = (self.scratch.path("proxy.pem"), self.scratch.path("proxy.key"));
        let pool = ["--ip-pool", "10.99.0.0/24", "--ip-pool", "fd00:99::/64"];
        let policy = ["--open", "--allow", "10.77.2.0/24", "--allow", "fd77:2::/64"];
        let base = ["proxy", "--listen", "10.77.1.1:4443", "--cert", &certificate, "--key", &key];
        let command = clearway(&[&base[..], &pool, &policy, &["--tun", "cwproxy"], more].concat());
        self.proxy.run(|| Running::printing("proxy at https://", command)).unwrap()
    }

    fn tunnel(&self, more: &[&str]) -> Command {
        let certificate = self.scratch.path("proxy.pem");
        let base = ["tunnel", "--proxy", "https://10.77.1.1:4443", "--proxy-ca", &certificate];
        clearway(&[&base[..], &["--tun", "cwtun"], more].concat())
    }

    fn start_tunnel(&self, more: &[&str]) -> Running {
        let command = self.tunnel(more);
        self.client.run(|| Running::printing("tunnel through 10.77.1.1:4443: ", command)).unwrap()
    }
}

/// Returns the output of a command.
fn output(command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends an ICMP echo request. Returns whether it was answered.
fn ping(target: &str) -> bool {
    let address: IpAddr = target.parse().unwrap();
    let (family, protocol, kind) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
    };
    let socket = socket(family, SocketType::DGRAM, Some(protocol)).unwrap();
    let timeout = Some(Duration::from_millis(500));
    set_socket_timeout(&socket, Timeout::Recv, timeout).unwrap();
    let mut request = vec![kind, 0, 0, 0, 0, 0, 0, 1];
    request.extend([0x5a; 56]);
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        sendto(&socket, &request, SendFlags::empty(), &SocketAddr::new(address, 0)).unwrap();
        let mut buffer = [0; 200];
        match recvfrom(&socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _, _)) => return length == 64 && buffer[8..64] == [0x5a; 56],
            Err(error) if error == rustix::io::Errno::AGAIN => {}
            Err(_) => return false,
        }
    }
    false
}

/// Sends `size` bytes from `from` to `to`, which listens at `address`. All of them must arrive.
fn transfer(from: &Namespace, to: &Namespace, address: &str, size: usize) {
    let address = SocketAddr::new(address.parse().unwrap(), 0);
    let listener = to.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let content: Vec<u8> = (0..size as u32).map(|at| (at * 31 + at / 251) as u8).collect();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        from.run(|| {
            let mut stream = TcpStream::connect_timeout(&address, LIMIT).unwrap();
            stream.set_write_timeout(Some(LIMIT)).unwrap();
            stream.write_all(&content).unwrap();
        })
        .unwrap();
        assert!(receiving.join().unwrap() == content);
    });
}

/// Sends UDP datagrams of several lengths to `address`, which echoes them. Lost datagrams are
/// resent: the first large reply over IPv6 is lost, and only then does its source learn the MTU.
fn echo(site: &Site, address: &str) {
    let address = SocketAddr::new(address.parse().unwrap(), 0);
    let target = site.target.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    let client = site.client.run(|| UdpSocket::bind(any(address)).unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    target.set_read_timeout(Some(LIMIT)).unwrap();
    client.connect(target.local_addr().unwrap()).unwrap();
    let lengths = [1, 1000, 1232, 2500];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 3000];
            // An empty datagram is the end.
            while let (length @ 1.., from) = target.recv_from(&mut buffer).unwrap() {
                target.send_to(&buffer[..length], from).unwrap();
            }
        });
        for length in lengths {
            eventually(|| {
                client.send(&vec![7; length]).unwrap();
                client.recv(&mut [0; 3000]).is_ok_and(|received| received == length)
            });
        }
        client.send(&[]).unwrap();
    });
}

fn any(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap()
}

/// Waits until `condition` holds.
fn eventually(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "it does not become true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn packets_of_both_ip_versions_pass() {
    let Some(site) = Site::new("tunnel") else { return };
    let metrics = "127.0.0.1:9433";
    let proxy = site.start_proxy(&["--metrics", metrics]);
    let tunnel = site.start_tunnel(&["--route", "10.77.2.0/24", "--route", "fd77:2::/64"]);
    for (target, client) in TARGETS.iter().zip(CLIENTS) {
        assert!(site.client.run(|| ping(target)).unwrap(), "{target}");
        echo(&site, target);
        transfer(&site.client, &site.target, target, 20_000_000);
        transfer(&site.target, &site.client, client, 20_000_000);
    }
    // The proxy answers at the first address of the pool.
    let device = site.client.run(|| output("ip address show dev cwtun")).unwrap();
    assert!(device.contains("inet 10.99.0.2/32"), "{device}");
    assert!(device.contains("inet6 fd00:99::2/128"), "{device}");
    let samples = site.proxy.run(|| Samples::scrape(metrics)).unwrap();
    assert_eq!(samples.one("clearway_proxy_tunnels{kind=\"ip\"}"), 1.0);
    for direction in ["to_targets", "to_clients"] {
        let labels = format!("{{kind=\"ip\",direction=\"{direction}\"}}");
        let bytes = samples.one(&format!("clearway_proxy_relayed_bytes_total{labels}"));
        let packets = samples.one(&format!("clearway_proxy_datagrams_relayed_total{labels}"));
        assert!(bytes > 4e7 && bytes > 500.0 * packets, "{direction}: {bytes}, {packets}");
    }
    tunnel.interrupt();
    let left = site.client.run(|| output("ip address") + &output("ip route")).unwrap();
    assert!(!left.contains("cwtun") && !left.contains("10.77.2.0"), "{left}");
    let log = proxy.interrupt();
    assert!(log.contains("IP */* as 10.99.0.2,fd00:99::2 200 "), "{log}");
    assert!(log.contains(": closed"), "{log}");
}

/// All traffic goes through the tunnel, except the tunnel's own packets.
#[test]
fn the_default_route_leads_through_the_tunnel() {
    let Some(site) = Site::new("tunnel-default") else { return };
    let _proxy = site.start_proxy(&[]);
    // The proxy is reached over the route that the tunnel takes over.
    site.client
        .run(|| {
            run("addr del 10.77.1.2/24 dev cwp");
            run("addr add 10.77.1.2 peer 10.77.1.254 dev cwp");
            run("route add 10.77.1.1 dev cwp metric 50");
            run("route del 10.77.1.1 dev cwp metric 50");
            run("route add 10.77.0.0/16 dev cwp");
            run("route add default dev cwp");
        })
        .unwrap();
    let tunnel = site.start_tunnel(&["--default-route", "--route", "10.77.0.0/17"]);
    assert!(site.client.run(|| ping(TARGETS[0])).unwrap());
    assert!(site.client.run(|| ping("10.99.0.1")).unwrap());
    let routes = site.client.run(|| output("ip route")).unwrap();
    for expected in ["0.0.0.0/1 dev cwtun", "128.0.0.0/1 dev cwtun", "10.77.1.1 dev cwp"] {
        assert!(routes.contains(expected), "{routes}");
    }
    transfer(&site.client, &site.target, TARGETS[0], 1_000_000);
    tunnel.interrupt();
    let routes = site.client.run(|| output("ip route")).unwrap();
    assert!(!routes.contains("cwtun") && !routes.contains("10.77.1.1 dev"), "{routes}");
    assert!(routes.contains("default dev cwp"), "{routes}");
}

/// A packet that does not fit into the tunnel is reported to its source, whose kernel then knows
/// the path's MTU (RFC 9484 §7.2.1). The report is sent by the kernel of the proxy's host, or by
/// the proxy if the MTU of its device is larger.
#[test]
fn packets_that_are_too_big_are_reported() {
    for (device, expected) in [("1280", 1280..=1280), ("1500", 1281..=1480)] {
        let Some(site) = Site::new("tunnel-mtu") else { return };
        let _proxy = site.start_proxy(&["--tun-mtu", device]);
        let routes = ["--route", "10.77.2.0/24", "--route", "fd77:2::/64"];
        let _tunnel = site.start_tunnel(&routes);
        let learns = |client: &str, header: usize| {
            let to = SocketAddr::new(client.parse().unwrap(), 9);
            let socket = UdpSocket::bind(any(to)).unwrap();
            eventually(|| {
                let _ = socket.send_to(&vec![0; 1500 - header], to);
                let route = output(&format!("ip route get {client}"));
                let mtu = route.split_once(" mtu ").map(|(_, rest)| rest);
                let mtu = mtu.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
                mtu.is_some_and(|mtu: usize| expected.contains(&mtu))
            });
        };
        let all =
            || CLIENTS.iter().zip([28, 48]).for_each(|(client, header)| learns(client, header));
        site.target.run(all).unwrap();
    }
}

/// The policy applies to each packet, and a refusal is reported to the sending program.
#[test]
fn destinations_that_the_policy_denies_are_reported() {
    let Some(site) = Site::new("tunnel-policy") else { return };
    let proxy = site.start_proxy(&[]);
    let tunnel = site.start_tunnel(&["--route", "10.88.0.0/16", "--route", "10.77.2.0/24"]);
    site.client
        .run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket.connect("10.88.0.1:53").unwrap();
            eventually(|| {
                let sent = socket.send(b"hello").and_then(|_| socket.recv(&mut [0; 10]));
                sent.is_err_and(|error| error.kind() == ErrorKind::HostUnreachable)
            });
            assert!(ping(TARGETS[0]));
        })
        .unwrap();
    // Addresses return to the pool, but others are preferred.
    tunnel.interrupt();
    let tunnel = site.start_tunnel(&["--route", "10.77.2.0/24"]);
    let device = site.client.run(|| output("ip address show dev cwtun")).unwrap();
    assert!(device.contains("inet 10.99.0.3/32"), "{device}");
    tunnel.interrupt();
    proxy.interrupt();
}

/// Services of the proxy's host may trust local clients.
#[test]
fn the_host_of_the_proxy_is_not_a_target() {
    let Some(site) = Site::new("tunnel-own") else { return };
    let proxy = site.start_proxy(&[]);
    let tunnel = site.start_tunnel(&["--route", "10.77.2.0/24"]);
    let certificate = site.scratch.path("proxy.pem");
    let get = |url: &str| {
        let access = ["--proxy", "https://10.77.1.1:4443", "--proxy-ca", &certificate];
        clearway(&[&["get"], &access[..], &["--insecure", url]].concat()).output().unwrap()
    };
    site.client
        .run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            // An address of the host in a permitted network.
            socket.connect("10.77.2.1:53").unwrap();
            eventually(|| {
                let sent = socket.send(b"hello").and_then(|_| socket.recv(&mut [0; 10]));
                sent.is_err_and(|error| error.kind() == ErrorKind::HostUnreachable)
            });
            assert!(ping(TARGETS[0]));
            for target in ["10.77.2.1", "[fd77:2::1]"] {
                let output = get(&format!("https://{target}/"));
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(error.contains("destination_ip_prohibited"), "{error}");
            }
        })
        .unwrap();
    tunnel.interrupt();
    proxy.interrupt();
    let proxy = site.start_proxy(&["--allow", "10.77.2.1"]);
    let output = site.client.run(|| get("https://10.77.2.1/")).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("prohibited"), "{error}");
    proxy.interrupt();
}

#[test]
fn failures_say_what_to_do() {
    let Some(site) = Site::new("tunnel-failures") else { return };
    let fails = |command: &mut Command| {
        let output = site.client.run(|| command.output().unwrap()).unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let route = ["--route", "10.77.2.0/24"];
    let unprivileged = site.tunnel(&route);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
    let message = fails(command.arg(unprivileged.get_program()).args(unprivileged.get_args()));
    assert!(message.contains("CAP_NET_ADMIN"), "{message}");
    let proxy = site.start_proxy(&[]);
    let tunnel = site.start_tunnel(&route);
    let message = fails(&mut site.tunnel(&route));
    assert!(message.contains("--tun"), "{message}");
    drop(proxy);
    tunnel.interrupt();
}

/// connect-ip-go gets addresses, whether it requests them or not, and reaches the proxy and the target.
#[test]
fn connect_ip_go_is_a_client() {
    let program =
        std::env::var_os("PEERS_OUT").map(|folder| Path::new(&folder).join("connect-ip-go"));
    let Some(program) = program.filter(|program| program.exists()) else {
        return eprintln!(
            "skipped: connect-ip-go was not built (cargo xtask test --peers builds it)"
        );
    };
    let Some(site) = Site::new("tunnel-go") else { return };
    let _proxy = site.start_proxy(&[]);
    let certificate = site.scratch.path("proxy.pem");
    for more in [&[][..], &["-unrequested"]] {
        let mut command = Command::new(&program);
        command.args(more).args(["-ca", &certificate, "10.77.1.1:4443", "10.99.0.1", "fd00:99::1"]);
        let output = site.client.run(|| command.args(TARGETS).output().unwrap()).unwrap();
        assert!(output.status.success(), "{more:?}: {output:?}");
    }
}
