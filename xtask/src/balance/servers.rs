//! The servers, and the balancer's file that lists them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clearway_wire::quic_lb::{ConfigId, IdCodec};

use super::fleet::SIZE;
use super::site::{METRICS, Site, balancer_ip, server_ip};
use super::{Stack, create, write};
use crate::program::Program;

/// The paths of the programs.
pub(super) struct Programs {
    pub(super) clearway: PathBuf,
    /// The path of the program that runs the clients.
    pub(super) fleet: PathBuf,
    pub(super) quic_go: PathBuf,
}

/// The certificate and key that all servers share.
pub(super) struct Certificate {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The servers' names, in the order of their addresses.
pub(super) const NAMES: [&str; super::site::SERVERS] = ["a", "b", "c", "d"];
const PORT: u16 = 443;
/// The key of the connection IDs of `clearway serve`: server ID and nonce fill one AES block.
const KEY: &str = "8f95f09245765f80256934e50c66207f";
const NONCE: usize = 14;
/// The total length of connection IDs issued by quic-go, in which one octet precedes the server ID.
const PLAIN_LENGTH: usize = 12;
const SERVER_ID_LENGTH: usize = 2;
/// The QUIC-LB configuration IDs.
const ENCRYPTED: u8 = 0;
const PLAIN: u8 = 1;
/// The period with which the content of served files repeats, in bytes.
const PERIOD: usize = 251;

/// Returns a server's QUIC-LB server ID in hexadecimal.
fn server_id(number: usize) -> String {
    let [first, second] = server_id_octets(number);
    format!("{first:02x}{second:02x}")
}

fn server_id_octets(number: usize) -> [u8; SERVER_ID_LENGTH] {
    [0x0a, u8::try_from(number + 1).unwrap_or(u8::MAX)]
}

/// Returns the number of the server with this server ID.
pub(super) fn number_of_id(id: &[u8]) -> Option<usize> {
    (0..NAMES.len()).find(|number| server_id_octets(*number) == id)
}

/// Returns the codec for the connection IDs of these servers, even if the balancer does not use it.
pub(super) fn codec(stack: Stack) -> Result<IdCodec, String> {
    let (config, nonce, key) = match stack {
        Stack::Clearway => (ENCRYPTED, NONCE, u128::from_str_radix(KEY, 16).ok()),
        Stack::QuicGo | Stack::QuicGoOpaque => (PLAIN, PLAIN_LENGTH - 1 - SERVER_ID_LENGTH, None),
    };
    let config = ConfigId::new(config).ok_or("no such configuration")?;
    let codec = IdCodec::new(config, SERVER_ID_LENGTH, nonce, key.map(u128::to_be_bytes))
        .map_err(|error| error.to_string())?;
    match stack {
        // `clearway serve` adds an octet that identifies the shard of the connection ID.
        Stack::Clearway => codec.with_extra(1).map_err(|error| error.to_string()),
        Stack::QuicGo | Stack::QuicGoOpaque => Ok(codec),
    }
}

/// Returns the number of the server with this name.
pub(super) fn number_of(name: &str) -> Result<usize, String> {
    let number = NAMES.iter().position(|it| *it == name);
    number.ok_or_else(|| format!("there is no server {name:?}"))
}

/// A server's entry in the balancer's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) number: usize,
    /// Whether the server is drained and gets no new clients.
    pub(super) drains: bool,
}

/// Returns the content of the balancer's file. Health checks are frequent enough that a killed
/// server is noticed within a second, and an added server gets its full share of clients
/// immediately.
pub(super) fn backends(stack: Stack, servers: &[Listed]) -> String {
    let mut text = "seed = 1\n".to_owned();
    let lengths = match stack {
        Stack::Clearway => {
            format!("id = {ENCRYPTED}\nnonce-length = {NONCE}\nkey = \"{KEY}\"\n")
        }
        Stack::QuicGo => {
            format!("id = {PLAIN}\nnonce-length = {}\n", PLAIN_LENGTH - 1 - SERVER_ID_LENGTH)
        }
        Stack::QuicGoOpaque => String::new(),
    };
    if !lengths.is_empty() {
        let _ = write!(text, "[[config]]\nserver-id-length = {SERVER_ID_LENGTH}\n{lengths}");
    }
    for &Listed { number, drains } in servers {
        let (name, ip) = (NAMES[number], server_ip(number));
        let _ = write!(text, "[[server]]\nname = \"{name}\"\naddress = \"{ip}:{PORT}\"\n");
        match stack {
            Stack::QuicGoOpaque => {
                let _ = writeln!(text, "id-length = {PLAIN_LENGTH}");
            }
            Stack::Clearway | Stack::QuicGo => {
                let _ = writeln!(text, "server-id = \"{}\"", server_id(number));
            }
        }
        if stack != Stack::Clearway {
            text.push_str("preface = false\n");
        }
        if drains {
            text.push_str("drain = true\n");
        }
    }
    text.push_str(
        "[health]\ninterval = \"100ms\"\ntimeout = \"300ms\"\ndown-after = 2\nup-after = 1\nslow-start = \"0s\"\n",
    );
    text
}

/// Starts a server in its namespace, with its own folder in `folder`, which also receives the
/// server's output.
pub(super) fn start(
    stack: Stack,
    number: usize,
    site: &Site,
    programs: &Programs,
    Certificate { certificate, key }: &Certificate,
    folder: &Path,
) -> Result<Program, String> {
    let name = NAMES[number];
    let root = content(&folder.join(name), name)?;
    let (root, listen) = (text(&root), format!("{}:{PORT}", server_ip(number)));
    let common = ["--listen", &listen, "--cert", text(certificate), "--key", text(key)];
    let common = [&common[..], &["--metrics", METRICS]].concat();
    let log = log(folder, number);
    let start = |program: &Path, arguments: &[&str]| {
        let arguments = [arguments, &common].concat();
        let name = format!("server {name}");
        Program::start(&name, &site.servers[number], (program, &arguments), "listening", &log)
    };
    match stack {
        Stack::Clearway => {
            let ids = folder.join(format!("server-{name}.toml"));
            write(&ids, quic_lb(number))?;
            let [first, second] = [0, 1].map(|it| balancer_ip(it).to_string());
            let balancers = ["--balancer", &first, "--balancer", &second];
            let report = ["--log", "clearway_io=debug"];
            let serve = ["serve", root, "--quiet", "--quic-lb", text(&ids)];
            let serve = [&serve[..], &report].concat();
            start(&programs.clearway, &[&serve[..], &balancers].concat())
        }
        Stack::QuicGo | Stack::QuicGoOpaque => {
            let ids = format!("{PLAIN}:{}:{PLAIN_LENGTH}", server_id(number));
            start(&programs.quic_go, &["server", "--root", root, "--quic-lb", &ids])
        }
    }
}

/// Returns the QUIC-LB configuration file of `clearway serve`.
fn quic_lb(number: usize) -> String {
    let id = server_id(number);
    format!(
        "config-id = {ENCRYPTED}\nserver-id = \"{id}\"\nnonce-length = {NONCE}\nkey = \"{KEY}\"\n"
    )
}

/// Creates a folder with the files that a server serves: its name, and a file with predictable
/// content.
fn content(folder: &Path, name: &str) -> Result<PathBuf, String> {
    create(folder)?;
    write(&folder.join("name"), name)?;
    let bytes: Vec<u8> = (0..PERIOD as u8).cycle().take(SIZE).collect();
    write(&folder.join("content"), bytes)?;
    Ok(folder.to_owned())
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Counters of a server that are normally zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// Datagrams that neither belong to a connection of the server nor start one.
    pub(super) unknown: u64,
    /// Stateless resets sent by the server.
    pub(super) resets: u64,
}

/// Returns the path of a server's log in `folder`.
pub(super) fn log(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("server-{}.log", NAMES[number]))
}

impl Counts {
    /// Parses a server's metrics. quic-go's server sends no stateless resets.
    pub(super) fn read(stack: Stack, metrics: &str) -> Result<Self, String> {
        let value = |name: &str| {
            metric(metrics, name).ok_or_else(|| format!("a server does not have the metric {name}"))
        };
        match stack {
            Stack::Clearway => Ok(Self {
                unknown: value("clearway_quic_datagrams_unknown_total")?,
                resets: value("clearway_quic_stateless_resets_sent_total")?,
            }),
            Stack::QuicGo | Stack::QuicGoOpaque => {
                Ok(Self { unknown: value("quic_go_datagrams_unknown_total")?, resets: 0 })
            }
        }
    }
}

/// Returns the sum of a metric over all of its labels; `None` if the metric is missing.
fn metric(text: &str, name: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = match rest.strip_prefix('{') {
            Some(labels) => labels.split_once('}')?.1,
            None => rest,
        };
        rest.strip_prefix(' ')?.split(' ').next()?.parse::<u64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Listed; 2] =
        [Listed { number: 0, drains: false }, Listed { number: 2, drains: true }];

    #[test]
    fn the_file_says_how_each_stack_is_routed() {
        let clearway = "\
seed = 1
[[config]]
server-id-length = 2
id = 0
nonce-length = 14
key = \"8f95f09245765f80256934e50c66207f\"
[[server]]
name = \"a\"
address = \"10.0.0.21:443\"
server-id = \"0a01\"
[[server]]
name = \"c\"
address = \"10.0.0.23:443\"
server-id = \"0a03\"
drain = true
[health]
";
        assert!(backends(Stack::Clearway, &TWO).starts_with(clearway));
        let quic_go = backends(Stack::QuicGo, &TWO);
        let config = "[[config]]\nserver-id-length = 2\nid = 1\nnonce-length = 9\n[[server]]";
        assert!(quic_go.contains(config), "{quic_go}");
        assert!(quic_go.contains("server-id = \"0a03\"\npreface = false\ndrain = true\n"));
        let opaque = backends(Stack::QuicGoOpaque, &TWO);
        assert!(!opaque.contains("config") && !opaque.contains("server-id"), "{opaque}");
        assert!(opaque.contains("id-length = 12\npreface = false\n"), "{opaque}");
        for stack in Stack::ALL {
            let file: toml::Table = toml::from_str(&backends(stack, &TWO)).unwrap();
            assert_eq!(file["server"].as_array().unwrap().len(), 2);
        }
    }

    #[test]
    fn the_ids_of_a_server_are_those_in_the_balancers_file() {
        let file: toml::Table = toml::from_str(&quic_lb(2)).unwrap();
        assert_eq!(file["server-id"].as_str(), Some("0a03"));
        assert_eq!((number_of("c"), number_of_id(&[0x0a, 3])), (Ok(2), Some(2)));
        assert_eq!(number_of_id(&[0x0a, 9]), None);
        for stack in Stack::ALL {
            let codec = codec(stack).unwrap();
            assert_eq!(codec.is_encrypted(), stack == Stack::Clearway);
        }
        assert!(number_of("e").is_err());
    }

    #[test]
    fn metrics_are_added_up_over_their_labels() {
        let text = "\
# TYPE clearway_quic_datagrams_unknown counter
clearway_quic_datagrams_unknown_total{shard=\"0\"} 3
clearway_quic_datagrams_unknown_total{shard=\"1\"} 4
clearway_quic_stateless_resets_sent_total{shard=\"0\"} 0
clearway_quic_stateless_resets_sent_total_other 9
";
        let counts = Counts::read(Stack::Clearway, text);
        assert_eq!(counts, Ok(Counts { unknown: 7, resets: 0 }));
        assert!(Counts::read(Stack::QuicGo, text).is_err());
        let counts = Counts::read(Stack::QuicGo, "quic_go_datagrams_unknown_total 5\n");
        assert_eq!(counts, Ok(Counts { unknown: 5, resets: 0 }));
    }
}
