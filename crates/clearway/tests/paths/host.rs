//! Two network namespaces that represent hosts connected by a link.

use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";
const OTHER: &str = "10.77.0.3";
const SERVER_V6: &str = "fd77::1";
const CLIENT_V6: &str = "fd77::2";
const OTHER_V6: &str = "fd77::3";

/// A process that is killed when this is dropped.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two network namespaces, which are removed when this is dropped.
pub(crate) struct Hosts {
    server: String,
    client: String,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            let _ = run("ip", &["netns", "del", name]);
        }
    }
}

/// Returns a command that runs this program in the namespace `name`, with one of its ignored tests.
pub(crate) fn run_in(name: &str, test: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name]).arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads", "1"]);
    command.envs(settings.iter().copied()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn must(line: &str) {
    let [program, arguments @ ..] = &words(line)[..] else { return };
    run(program, arguments).unwrap();
}

impl Hosts {
    /// Creates the namespaces. Returns `None` if that is not possible.
    pub(crate) fn new() -> Option<Self> {
        let has = |program: &str| run(program, &["-V"]).is_ok() || run(program, &["-v"]).is_ok();
        if !["ip", "tc", "nft"].into_iter().all(has) {
            return None;
        }
        let id = std::process::id();
        let hosts = Self {
            server: format!("clearway-paths-s{id}"),
            client: format!("clearway-paths-c{id}"),
        };
        run("ip", &["netns", "add", &hosts.server]).ok()?;
        run("ip", &["netns", "add", &hosts.client]).ok()?;
        let Self { server, client } = &hosts;
        must(&format!("ip -n {server} link add v0 type veth peer name v1 netns {client}"));
        for (name, link, ip, ip_v6) in
            [(server, "v0", SERVER, SERVER_V6), (client, "v1", CLIENT, CLIENT_V6)]
        {
            must(&format!("ip -n {name} link set lo up"));
            must(&format!("ip -n {name} link set {link} up"));
            must(&format!("ip -n {name} addr add {ip}/24 dev {link}"));
            must(&format!("ip -n {name} addr add {ip_v6}/64 dev {link} nodad"));
            must(&format!(
                "ip netns exec {name} tc qdisc add dev {link} root tbf rate 40mbit burst 64kb \
                 latency 50ms"
            ));
        }
        Some(hosts)
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    pub(crate) fn server_ip(&self, is_v6: bool) -> IpAddr {
        (if is_v6 { SERVER_V6 } else { SERVER }).parse().unwrap()
    }

    /// The client's second IPv4 address.
    pub(crate) fn other_client_ip(&self) -> IpAddr {
        OTHER.parse().unwrap()
    }

    /// Waits until a UDP port of the server is bound.
    pub(crate) fn wait_for_port(&self, port: u16) {
        let begin = Instant::now();
        let filter = format!(":{port}");
        let list = ["netns", "exec", &self.server, "cat", "/proc/net/udp6", "/proc/net/udp"];
        let hex = format!(":{port:04X}");
        while !run("ip", &list).is_ok_and(|sockets| sockets.contains(&hex)) {
            assert!(begin.elapsed() < Duration::from_secs(10), "nothing is at {filter}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Restores the original addresses, MTU and filters, and adds the second IPv4 address.
    pub(crate) fn reset(&self) {
        let Self { server, client } = self;
        for (name, link) in [(server, "v0"), (client, "v1")] {
            must(&format!("ip -n {name} link set {link} mtu 1500"));
            let _ = run("ip", &["netns", "exec", name, "nft", "flush", "ruleset"]);
        }
        must(&format!("ip -n {client} addr flush dev v1 scope global"));
        for ip in [CLIENT, OTHER].map(|ip| format!("{ip}/24")) {
            must(&format!("ip -n {client} addr add {ip} dev v1"));
        }
        must(&format!("ip -n {client} addr add {CLIENT_V6}/64 dev v1 nodad"));
    }

    /// Replaces the client's address.
    pub(crate) fn replace_client_ip(&self, is_v6: bool) {
        let client = &self.client;
        if is_v6 {
            must(&format!("ip -n {client} addr del {CLIENT_V6}/64 dev v1"));
            must(&format!("ip -n {client} addr add {OTHER_V6}/64 dev v1 nodad"));
        } else {
            must(&format!("ip -n {client} addr flush dev v1 scope global"));
            must(&format!("ip -n {client} addr add {OTHER}/24 dev v1"));
        }
    }

    /// Silently drops all packets from or to the client's first address from now on, without ICMP
    /// messages.
    pub(crate) fn drop_client_ip(&self) {
        for (name, rule) in [
            (&self.server, format!("ip saddr {CLIENT} drop")),
            (&self.client, format!("ip daddr {CLIENT} drop")),
        ] {
            let nft = |rule: &str| {
                let mut arguments = vec!["netns", "exec", name, "nft", "add"];
                arguments.extend(words(rule));
                run("ip", &arguments).unwrap();
            };
            nft("table inet paths");
            nft("chain inet paths in { type filter hook input priority 0 ; }");
            nft(&format!("rule inet paths in {rule}"));
        }
    }

    /// Sets the MTU of both hosts' interfaces.
    pub(crate) fn set_mtu(&self, bytes: usize) {
        for (name, link) in [(&self.server, "v0"), (&self.client, "v1")] {
            must(&format!("ip -n {name} link set {link} mtu {bytes}"));
        }
    }
}
