//! Three hosts in network namespaces, and an IP tunnel from the first to the second.

use std::path::{Path, PathBuf};
use std::process::Command;

use clearway_namespaces::{Namespace, ip};

use crate::bench::place::{CLIENT_CORE, Place, SERVER_CORE};
use crate::bench::{stacks, text};
use crate::command::{output, target};
use crate::doctor::scene::set;
use crate::measure;
use crate::program::Program;

/// The address of the target, which is reached through the tunnel.
pub(super) const TARGET: &str = "10.77.2.2";

/// The address of the server's end of the path, and the ports of the link and the two servers.
const SERVER: &str = "10.77.1.1";
const LINK: u16 = 4434;
const CLEARWAY: u16 = 4443;
const WIREGUARD: u16 = 51820;

/// The MTU of both kinds of tunnels: the minimum of IPv6.
const MTU: &str = "1280";

/// The kinds of tunnels to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Clearway,
    WireGuard,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Clearway, Self::WireGuard];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Clearway => "clearway",
            Self::WireGuard => "wireguard-go",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Clearway => CLEARWAY,
            Self::WireGuard => WIREGUARD,
        }
    }
}

pub(super) struct Programs {
    pub(super) clearway: PathBuf,
    pub(super) wireguard: PathBuf,
}

/// A client, a server, and a target behind the server.
pub(super) struct Site {
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    pub(super) target: Namespace,
    programs: Programs,
    place: Place,
    log: PathBuf,
}

/// A running tunnel, with the link between its ends.
pub(super) struct Tunnel {
    ends: [Program; 2],
    _link: Option<Program>,
}

impl Tunnel {
    /// Returns the CPU seconds that both ends have used so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64, String> {
        self.ends.iter().map(|end| measure::cpu_seconds(end.process())).sum()
    }
}

/// Runs `ip` with each of the commands in a namespace.
fn configure(host: &Namespace, commands: &[&str]) -> Result<(), String> {
    let apply = || commands.iter().try_for_each(|words| ip(&words.split(' ').collect::<Vec<_>>()));
    host.run(apply).flatten().map_err(|error| error.to_string())
}

impl Site {
    pub(super) fn new(programs: Programs) -> Result<Self, String> {
        let create = || Namespace::create().map_err(|error| error.to_string());
        let [client, server, behind] = [create()?, create()?, create()?];
        let place = Place::new(&stacks::benchmark())?;
        let joins = [
            format!("link add near type veth peer name far netns {}", client.process()),
            format!("link add behind type veth peer name far netns {}", behind.process()),
        ];
        configure(&server, &[&joins[0], &joins[1]])?;
        let addresses = ["addr add 10.77.1.1/24 dev near", "addr add 10.77.2.1/24 dev behind"];
        configure(&server, &addresses)?;
        // The link sends to an address of its own host.
        configure(&server, &["link set near up", "link set behind up", "link set lo up"])?;
        configure(&client, &["addr add 10.77.1.2/24 dev far", "link set far up"])?;
        let up = ["addr add 10.77.2.2/24 dev far", "link set far up"];
        configure(&behind, &[up[0], up[1], "route add default via 10.77.2.1"])?;
        set(&server, "ipv4/ip_forward", "1")?;
        let log = target().join("bench/tunnel.log");
        Ok(Self { client, server, target: behind, programs, place, log })
    }

    /// Starts a tunnel with this link between its ends.
    pub(super) fn start(&self, kind: Kind, link: Option<&[&str]>) -> Result<Tunnel, String> {
        let link = link.map(|options| self.link(kind, options)).transpose()?;
        let port = if link.is_some() { LINK } else { kind.port() };
        let ends = match kind {
            Kind::Clearway => self.clearway(port),
            Kind::WireGuard => self.wireguard(port),
        };
        Ok(Tunnel { ends: ends?, _link: link })
    }

    fn link(&self, kind: Kind, options: &[&str]) -> Result<Program, String> {
        let (listen, to) = (format!("{SERVER}:{LINK}"), format!("{SERVER}:{}", kind.port()));
        // The link prints its address on standard error.
        let program = text(&self.programs.clearway);
        let shell = ["-c", "exec \"$0\" \"$@\" 2>&1", program, "link"];
        let arguments = [&shell[..], &["--listen", &listen, "--to", &to], options].concat();
        let command = (Path::new("sh"), arguments.as_slice());
        Program::start("link", &self.server, command, "relaying", &self.log)
    }

    /// Starts a program on one core.
    fn pinned(
        &self,
        host: &Namespace,
        core: usize,
        (program, arguments): (&Path, &[&str]),
        ready: &str,
    ) -> Result<Program, String> {
        let core = core.to_string();
        let words = [&["--cpu-list", &core, text(program)], arguments].concat();
        let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Program::start(name, host, (Path::new("taskset"), &words), ready, &self.log)
    }

    fn clearway(&self, port: u16) -> Result<[Program; 2], String> {
        let program = &self.programs.clearway;
        let listen = format!("{SERVER}:{CLEARWAY}");
        let (certificate, key) = (text(&self.place.certificate), text(&self.place.key));
        let server = [
            &["proxy", "--listen", &listen, "--cert", certificate, "--key", key, "--quiet"][..],
            &["--open", "--allow", "10.77.2.0/24", "--ip-pool", "10.99.0.0/24"],
            &["--tun", "tunnel", "--tun-mtu", MTU, "--shards", "1"],
        ];
        let server = server.concat();
        let server = self.pinned(&self.server, SERVER_CORE, (program, &server), "proxy")?;
        let proxy = format!("https://{SERVER}:{port}");
        let client = [
            &["tunnel", "--proxy", &proxy, "--proxy-insecure", "--mtu", MTU, "--tun", "tunnel"][..],
            &["--route", "10.77.2.0/24"],
        ];
        let client = client.concat();
        let client = self.pinned(&self.client, CLIENT_CORE, (program, &client), "tunnel")?;
        Ok([client, server])
    }

    fn wireguard(&self, port: u16) -> Result<[Program; 2], String> {
        let program = &self.programs.wireguard;
        let [(server_key, server_public), (client_key, client_public)] =
            [self.keys()?, self.keys()?];
        let base = ["-tun", "tunnel", "-mtu", MTU, "-private"];
        let listen = WIREGUARD.to_string();
        let server = [&server_key, "-peer", &client_public, "-listen", &listen];
        let server = [&base[..], &server, &["-allowed", "10.99.0.2/32"]].concat();
        let server = self.pinned(&self.server, SERVER_CORE, (program, &server), "ready")?;
        let up = ["addr add 10.99.0.1/24 dev tunnel", "link set tunnel up"];
        configure(&self.server, &up)?;
        let endpoint = format!("{SERVER}:{port}");
        let client = [&client_key, "-peer", &server_public, "-endpoint", &endpoint];
        let client = [&base[..], &client, &["-allowed", "0.0.0.0/0"]].concat();
        let client = self.pinned(&self.client, CLIENT_CORE, (program, &client), "ready")?;
        let up = ["addr add 10.99.0.2/32 dev tunnel", "link set tunnel up"];
        configure(&self.client, &[up[0], up[1], "route add 10.77.2.0/24 dev tunnel"])?;
        Ok([client, server])
    }

    /// Returns a new private key and its public key.
    fn keys(&self) -> Result<(String, String), String> {
        let printed = output("wireguard-go", Command::new(&self.programs.wireguard).arg("-keys"))?;
        let (private, public) = printed.trim().split_once(' ').ok_or("wireguard-go has no keys")?;
        Ok((private.to_owned(), public.to_owned()))
    }
}
