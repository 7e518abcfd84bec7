//! The proxies: the balancer, nginx, and simple loops for comparison.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::bounded::ending_with_this;
use super::super::kernel::is_bound;
use super::super::place::SERVER_CORE;
use super::super::stacks::clearway;
use super::super::{text, threads};
use crate::command::target;
use crate::measure::Process;

/// The servers' QUIC-LB server IDs; the sinks choose the addresses.
pub(super) const SERVER_IDS: [&str; 4] = ["0001", "0002", "0003", "0004"];
/// Length of a server ID in octets.
pub(super) const SERVER_ID_LENGTH: usize = 2;
pub(super) const NONCE_LENGTH: usize = 6;
/// The path of nginx's stream module in Debian's package libnginx-mod-stream.
const MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
/// Time limit for nginx to start listening.
const STARTING: Duration = Duration::from_secs(5);
const POLLING: Duration = Duration::from_millis(5);
/// The name of the balancer's forwarding threads.
pub(super) const THREAD: &str = "clearway-forward";

/// A proxy to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The program `clearway balance`.
    Balancer {
        /// Whether the balancer adds a preface with the client's address to each datagram.
        has_preface: bool,
        threads: usize,
    },
    /// A single-threaded loop.
    Loop(Loop),
    /// nginx's UDP proxy, in one process.
    Nginx,
}

/// A forwarding loop of `clearway-bench`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Loop {
    /// The loop's receive method.
    pub(super) method: &'static str,
    /// Additional work per datagram in microseconds.
    pub(super) work_us: u64,
    /// The loop's receive buffer size in bytes; `None` for the kernel's default.
    pub(super) receive_buffer: Option<u64>,
}

/// The programs to run, and the folder for their files.
pub(super) struct Programs {
    pub(super) bench: PathBuf,
    balancer: PathBuf,
    folder: PathBuf,
    /// The nginx directive that loads the stream module. The error says why nginx is skipped.
    pub(super) nginx: Result<String, String>,
}

impl Programs {
    /// Finds Clearway's programs, which must have been built, and the other programs if they are
    /// installed.
    pub(super) fn find(bench: PathBuf) -> Result<Self, String> {
        let folder = target().join("bench/balance");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { bench, balancer: clearway(), folder, nginx: find_nginx() })
    }

    fn write(&self, name: &str, contents: &str) -> Result<(), String> {
        let file = self.folder.join(name);
        fs::write(&file, contents).map_err(|error| format!("{}: {error}", file.display()))
    }
}

/// A running proxy.
pub(super) struct Proxy {
    process: Process,
    /// The address that clients send to.
    pub(super) address: String,
    /// The threads whose CPU time is counted individually. If there are none, the CPU time of the
    /// process is counted.
    pub(super) threads: Vec<u32>,
}

impl Proxy {
    /// Starts a proxy on these cores, in front of servers at these addresses. `name` distinguishes
    /// the proxy's files from those of other proxies.
    pub(super) fn start(
        kind: Kind,
        programs: &Programs,
        servers: &str,
        name: &str,
        cores: &str,
    ) -> Result<Self, String> {
        let around = ending_with_this(text(&programs.folder), cores);
        let start = |arguments: &[&str]| -> Result<Process, String> {
            let arguments = [&around, arguments].concat();
            Ok(Process::start(Path::new("env"), &arguments, SERVER_CORE, "listening")?)
        };
        let (process, address) = match kind {
            Kind::Balancer { has_preface, threads } => {
                let (file, threads) = (format!("{name}.toml"), threads.to_string());
                programs.write(&file, &backends(servers, has_preface))?;
                let balance = [text(&programs.balancer), "balance", "--listen", "127.0.0.1:0"];
                let more = ["--quiet", "--backends", &file, "--shards", &threads];
                let process = start(&[&balance[..], &more].concat())?;
                let address = address(process.said())?.to_owned();
                (process, address)
            }
            Kind::Loop(Loop { method, work_us, receive_buffer }) => {
                let (work, buffer) = (work_us.to_string(), receive_buffer.map(|it| it.to_string()));
                let forward = [text(&programs.bench), "forward", "loop", "--listen", "127.0.0.1:0"];
                let more = ["--servers", servers, "--method", method, "--work-us", &work];
                let mut arguments = [&forward[..], &more].concat();
                arguments.extend(buffer.iter().flat_map(|bytes| ["--receive-buffer", bytes]));
                let process = start(&arguments)?;
                let address = process.said().to_owned();
                (process, address)
            }
            Kind::Nginx => {
                let (file, port) = (format!("{name}.conf"), free_port()?);
                let address = format!("127.0.0.1:{port}");
                let load = programs.nginx.as_deref().map_err(Clone::clone)?;
                programs.write(&file, &nginx(load, &address, servers))?;
                // nginx does not report when it is ready.
                let script = "echo \"listening $1\"; exec nginx -p . -e stderr -c \"$0\"";
                let process = start(&["sh", "-c", script, &file, &address])?;
                wait_until_bound(port)?;
                (process, address)
            }
        };
        Ok(Self { process, address, threads: Vec::new() })
    }

    /// Returns the proxy's process ID.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the CPU seconds used so far: one value per individually counted thread, or one for
    /// the whole process.
    pub(super) fn cpu_seconds(&self) -> Result<Vec<f64>, String> {
        let process = self.id();
        match self.threads.is_empty() {
            true => Ok(vec![threads::cpu_seconds_of_all(process)?]),
            false => self.threads.iter().map(|it| threads::cpu_seconds(process, *it)).collect(),
        }
    }
}

/// Returns the address that follows `listening` in the balancer's output.
fn address(said: &str) -> Result<&str, String> {
    let words = said.split(' ').find(|word| word.parse::<std::net::SocketAddr>().is_ok());
    words.ok_or_else(|| format!("cannot find the address in the balancer's output: {said}"))
}

/// Returns the content of the balancer's `--backends` file.
fn backends(servers: &str, has_preface: bool) -> String {
    let mut file = format!(
        "[[config]]\nid = 0\nserver-id-length = {SERVER_ID_LENGTH}\nnonce-length = {NONCE_LENGTH}\n"
    );
    for (id, address) in SERVER_IDS.iter().zip(servers.split(',')) {
        file += &format!(
            "\n[[server]]\nname = \"server-{id}\"\naddress = \"{address}\"\nserver-id = \"{id}\"\n\
             preface = {has_preface}\n"
        );
    }
    // The servers only count datagrams.
    file + "\n[health]\noff = true\n"
}

/// Returns an nginx configuration that forwards in one process. A client's datagrams go to one
/// server, until the client has sent nothing for a minute.
fn nginx(load: &str, listen: &str, servers: &str) -> String {
    let servers = servers.split(',').map(|address| format!("        server {address};\n"));
    let servers: String = servers.collect();
    format!(
        "{load}daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events {{
    worker_connections 4096;
    multi_accept on;
}}
stream {{
    upstream servers {{
        hash $remote_addr$remote_port;
{servers}    }}
    server {{
        listen {listen} udp;
        proxy_pass servers;
        proxy_timeout 60s;
    }}
}}
"
    )
}

/// Searches for nginx with its stream module, and returns the directive that loads the module.
fn find_nginx() -> Result<String, String> {
    let asked = Command::new("nginx").arg("-V").output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    stream_module(said.ok().as_deref(), Path::new(MODULE).exists())
}

/// Returns the directive that loads the stream module. Takes the build options that nginx printed,
/// if it is installed, and whether the module exists where Debian installs it.
fn stream_module(built: Option<&str>, has_module: bool) -> Result<String, String> {
    let left_out = |why: &str| {
        Err(format!("nginx is skipped: {why} (Debian packages: nginx and libnginx-mod-stream)"))
    };
    let Some(built) = built else { return left_out("it is not installed") };
    let is_built_in = built.split_whitespace().any(|word| word == "--with-stream");
    match (is_built_in, has_module) {
        (true, _) => Ok(String::new()),
        (false, true) => Ok(format!("load_module {MODULE};\n")),
        (false, false) => left_out("its stream module is not installed"),
    }
}

/// Returns a port that is currently free.
fn free_port() -> Result<u16, String> {
    let bound = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("cannot find a free port: {error}"))
}

fn wait_until_bound(port: u16) -> Result<(), String> {
    let began = Instant::now();
    while !is_bound(port)? {
        if began.elapsed() > STARTING {
            return Err("nginx did not start listening; its output is above".to_owned());
        }
        std::thread::sleep(POLLING);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balancer_knows_the_servers_by_their_ids() {
        let file = backends("127.0.0.1:1001,127.0.0.1:1002", true);
        let expected = "[[config]]
id = 0
server-id-length = 2
nonce-length = 6

[[server]]
name = \"server-0001\"
address = \"127.0.0.1:1001\"
server-id = \"0001\"
preface = true

[[server]]
name = \"server-0002\"
address = \"127.0.0.1:1002\"
server-id = \"0002\"
preface = true

[health]
off = true
";
        assert_eq!(file, expected);
        assert!(file.parse::<toml::Table>().is_ok());
    }

    #[test]
    fn server_ids_have_the_length_of_the_configuration() {
        assert!(SERVER_IDS.iter().all(|id| id.len() == 2 * SERVER_ID_LENGTH));
    }

    #[test]
    fn the_address_is_found_in_what_the_balancer_prints() {
        assert_eq!(address("on 127.0.0.1:4433"), Ok("127.0.0.1:4433"));
        assert_eq!(address("127.0.0.1:4433 (2 threads)"), Ok("127.0.0.1:4433"));
        assert!(address("on port 4433").is_err());
    }

    #[test]
    fn nginx_forwards_to_all_servers() {
        let file = nginx("", "127.0.0.1:9", "127.0.0.1:1,127.0.0.1:2");
        assert!(file.starts_with("daemon off;\n"));
        assert!(file.contains("        server 127.0.0.1:1;\n        server 127.0.0.1:2;\n    }\n"));
        assert!(file.contains("listen 127.0.0.1:9 udp;"));
    }

    #[test]
    fn nginx_is_used_only_with_its_module_for_streams() {
        let built = |how: &str| format!("configure arguments: --prefix=/x {how} --with-pcre");
        let found = |how: &str, module| stream_module(Some(&built(how)), module);
        assert_eq!(found("--with-stream_ssl_module --with-stream", false), Ok(String::new()));
        let load = format!("load_module {MODULE};\n");
        assert_eq!(found("--with-stream=dynamic", true), Ok(load));
        assert!(found("--with-stream=dynamic", false).is_err_and(|it| it.contains("module")));
        assert!(stream_module(None, true).is_err_and(|it| it.contains("is not installed")));
    }
}
