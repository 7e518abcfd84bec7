//! The environment of an attack: files, certificates, a target in its own process, and attackers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clearway_wire::TransportParameters;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::endpoint::{Endpoint, Sent, Settings, generous};
use super::watch::Cost;
use crate::bounded::Server;

/// Time limit for an attacker's handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Name of the small file that the well-behaved client requests.
pub(super) const SMALL: &str = "/small.txt";
/// Name of the large file, which attackers request.
pub(super) const LARGE: &str = "/large.bin";
const LARGE_LEN: usize = 20_000_000;

/// The environment shared by all attacks.
pub(super) struct Site {
    /// The folder for the files of this run.
    pub(super) folder: PathBuf,
    /// Path of the `clearway` program.
    pub(super) program: PathBuf,
    /// Path of the library's example program `peer`.
    pub(super) library: PathBuf,
    /// Whether the programs were built with optimization.
    pub(super) is_optimized: bool,
    client: Arc<rustls::ClientConfig>,
    /// The TLS configuration for hostile servers.
    pub(super) server: Arc<rustls::ServerConfig>,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

impl Site {
    pub(super) fn new(folder: &Path, program: PathBuf, library: PathBuf) -> Result<Self, String> {
        let files = folder.join("www");
        fs::create_dir_all(&files).map_err(failed(&files))?;
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, content).map_err(failed(&path))
        };
        write(&format!("www{SMALL}"), &[b'x'; 1_000])?;
        write("www/other.txt", &[b'y'; 1_000])?;
        write(&format!("www{LARGE}"), &vec![b'x'; LARGE_LEN])?;
        let text = |error: &dyn std::fmt::Display| format!("the certificate: {error}");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| text(&error))?;
        write("cert.pem", made.cert.pem().as_bytes())?;
        write("key.pem", made.signing_key.serialize_pem().as_bytes())?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).map_err(|error| text(&error))?;
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // Keeps the ClientHello small enough for one datagram.
        provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
        let provider = Arc::new(provider);
        let versions = [&rustls::version::TLS13];
        let client = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| text(&error))?;
        let mut client = client.with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| text(&error))?
            .with_no_client_auth();
        let mut server = server
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .map_err(|error| text(&error))?;
        server.alpn_protocols = vec![b"h3".to_vec()];
        let is_optimized = !program.components().any(|part| part.as_os_str() == "debug");
        Ok(Self {
            folder: folder.to_owned(),
            program,
            library,
            is_optimized,
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// Returns the path of a file in the folder.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Returns the settings of a client that sends from 127.0.0.1.
    pub(super) fn settings(&self, counter: &Arc<Sent>) -> Settings {
        Settings {
            tls: self.client.clone(),
            parameters: generous(),
            local: IpAddr::V4(Ipv4Addr::LOCALHOST),
            prefix: Vec::new(),
            counter: counter.clone(),
            forged: None,
        }
    }

    /// Returns the settings of a client that sends from 127.0.0.1 and offers another ALPN protocol.
    pub(super) fn settings_for(&self, counter: &Arc<Sent>, protocol: &str) -> Settings {
        let mut tls = (*self.client).clone();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Settings { tls: Arc::new(tls), ..self.settings(counter) }
    }

    /// Returns a `clearway serve` command that serves the files on any free port.
    pub(super) fn serve(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["serve", &self.path("www"), "--cert", &self.path("cert.pem")]);
        command.args(["--key", &self.path("key.pem")]).args(options);
        if !options.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command
    }

    /// Returns the command that runs the library's example server with the files.
    pub(super) fn library(&self, address: SocketAddr) -> Command {
        let mut command = Command::new(&self.library);
        command.args(["server", &address.to_string()]);
        command.args(["cert.pem", "key.pem", "www"].map(|name| self.path(name)));
        command
    }
}

/// Starts a server, and returns it together with the address that it prints.
pub(super) fn start(command: Command, log: &Path) -> Result<(Server, SocketAddr), String> {
    let mut server = Server::start(command, log)?;
    server.wait(|log| announced(log).is_some())?;
    let address = announced(&server.log()).ok_or("the server did not print its address")?;
    Ok((server, address))
}

/// Parses the address from `listening ADDRESS`, `listening on https://ADDRESS (h3)` or the output
/// of `balance`.
pub(super) fn announced(log: &str) -> Option<SocketAddr> {
    log.lines().find_map(|line| {
        let rest = line.split_once("listening ").map(|(_, rest)| rest)?;
        let rest = rest.strip_prefix("on ").unwrap_or(rest);
        let rest = rest.strip_prefix("https://").unwrap_or(rest);
        rest.split([' ', ',', ';']).next()?.parse().ok()
    })
}

/// An attack that is in progress.
pub(super) struct Scene<'a> {
    pub(super) site: &'a Site,
    /// The folder for the files of this attack.
    pub(super) folder: PathBuf,
    /// The address that the attackers send to.
    pub(super) address: SocketAddr,
    /// The address of the metrics endpoint, if there is one.
    pub(super) metrics: Option<SocketAddr>,
    /// The path of the target's log.
    pub(super) log: PathBuf,
    /// The costs that the attack measured itself, if it did.
    pub(super) measured: Option<Cost>,
    /// Counters of the datagrams and bytes that the attackers have sent.
    pub(super) counter: Arc<Sent>,
    /// Remarks about the attack for the reader.
    pub(super) notes: Vec<String>,
    /// The reasons why the attack succeeded, apart from the measured costs.
    pub(super) faults: Vec<String>,
}

impl Scene<'_> {
    /// Returns a connected attacker that has not opened any stream.
    pub(super) fn bare_attacker(&self) -> Result<Endpoint, String> {
        Endpoint::connect(self.address, &self.site.settings(&self.counter), HANDSHAKE)
    }

    /// Records how the target closed a connection, if it did.
    pub(super) fn note_end(&mut self, attacker: &Endpoint) {
        if let Some(closed) = &attacker.closed {
            self.notes.push(format!("closed: {:#x} {}", closed.code, closed.reason));
        }
    }

    /// Returns a connected attacker with an HTTP/3 control stream.
    pub(super) fn attacker(&self) -> Result<Endpoint, String> {
        self.attacker_with(generous())
    }

    /// Returns a connected attacker with an HTTP/3 control stream and other transport parameters.
    pub(super) fn attacker_with(
        &self,
        parameters: TransportParameters,
    ) -> Result<Endpoint, String> {
        let settings = Settings { parameters, ..self.site.settings(&self.counter) };
        let mut endpoint = Endpoint::connect(self.address, &settings, HANDSHAKE)?;
        super::http3::open(&mut endpoint, &[]);
        Ok(endpoint)
    }

    /// Records a failure unless `holds` is true.
    pub(super) fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(fault());
        }
    }
}
