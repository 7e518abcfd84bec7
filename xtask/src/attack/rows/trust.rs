//! Attacks on client certificates, session tickets and early data, between servers that share
//! ticket keys.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustix::process::{Pid, Signal, kill_process};
use rustls::HandshakeKind;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::{Bound, Row, Target, USUAL};
use crate::attack::client::ask;
use crate::attack::encoding::stream_frame;
use crate::attack::endpoint::{Endpoint, Settings};
use crate::attack::http3::{self, get};
use crate::attack::scene::{HANDSHAKE, SMALL, Scene, start};
use crate::attack::watch::Watch;
use crate::bounded::Server;
use crate::waiting::check_interrupt;

/// Time limit for a server to reload a file that has changed.
const FOLLOWING: Duration = Duration::from_secs(5);
/// Duration slightly longer than a second, since tickets contain times in whole seconds.
const SECOND: Duration = Duration::from_millis(1_100);

pub(super) fn rows() -> Vec<Row> {
    let row =
        |name, drive| Row { name, target: Target::Alone, is_quick: false, bound: USUAL, drive };
    vec![
        row("trust-tickets", tickets),
        row("early-data-replay", replay),
        Row { bound: Bound { cpu: 0.75, ..USUAL }, ..row("certificate-bombs", bombs) },
    ]
}

/// The certificates and keys of two CAs, and the ticket keys.
struct Site {
    client: Arc<CertifiedKey>,
    bomb: Arc<CertifiedKey>,
    folder: std::path::PathBuf,
}

fn text(error: impl std::fmt::Display) -> String {
    format!("a certificate: {error}")
}

fn authority(
    name: &str,
) -> Result<(CertificateDer<'static>, String, Issuer<'static, KeyPair>), String> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().map_err(text)?;
    let own = parameters.self_signed(&key).map_err(text)?;
    Ok((own.der().clone(), own.pem(), Issuer::new(parameters, key)))
}

/// Returns a CA certificate with the subject `name` and the issuer `issuer`.
fn between(name: &str, issuer: &str) -> Result<CertificateDer<'static>, String> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().map_err(text)?;
    let (_, _, issuer) = authority(issuer)?;
    Ok(parameters.signed_by(&key, &issuer).map_err(text)?.der().clone())
}

fn identity(
    issuer: &Issuer<'static, KeyPair>,
    intermediates: Vec<CertificateDer<'static>>,
) -> Result<Arc<CertifiedKey>, String> {
    let key = KeyPair::generate().map_err(text)?;
    let own = CertificateParams::default().signed_by(&key, issuer).map_err(text)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).map_err(text)?;
    let chain = [vec![own.der().clone()], intermediates].concat();
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

impl Site {
    fn new(scene: &Scene<'_>) -> Result<Self, String> {
        let folder = scene.folder.clone();
        let write = |name: &str, content: &str| {
            fs::write(folder.join(name), content).map_err(|error| format!("{name}: {error}"))
        };
        let (_, a, issuer) = authority("a")?;
        let (_, b, _) = authority("b")?;
        write("a.pem", &a)?;
        write("b.pem", &b)?;
        write("keys", &format!("{}\n", "5c".repeat(32)))?;
        // The chain that is most expensive to verify within the length limit: three names that form
        // a loop, with three certificates each.
        let mut loops = Vec::new();
        for _ in 0..3 {
            for (name, issuer) in [("a", "y"), ("y", "z"), ("z", "a")] {
                loops.push(between(name, issuer)?);
            }
        }
        let bomb = identity(&authority("a")?.2, loops)?;
        Ok(Self { client: identity(&issuer, Vec::new())?, bomb, folder })
    }

    /// Starts a server with these options, replacing `{folder}` with the folder that contains the
    /// files.
    fn serve(&self, scene: &Scene<'_>, options: &[&str]) -> Result<(Server, SocketAddr), String> {
        let folder = self.folder.display().to_string();
        let options: Vec<String> =
            options.iter().map(|option| option.replace("{folder}", &folder)).collect();
        let mut all = vec!["--quiet"];
        all.extend(options.iter().map(String::as_str));
        start(scene.site.serve(&all), &scene.log)
    }
}

/// Returns the settings of a client with its own session cache.
fn settings(scene: &Scene<'_>, certificate: Option<&Arc<CertifiedKey>>) -> Settings {
    let settings = scene.site.settings(&scene.counter);
    let mut tls = (*settings.tls).clone();
    tls.resumption = rustls::client::Resumption::in_memory_sessions(8);
    tls.enable_early_data = true;
    if let Some(certificate) = certificate {
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from((**certificate).clone()));
    }
    Settings { tls: Arc::new(tls), ..settings }
}

/// A server's response to a client's session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Resumed,
    Full,
    Refused,
}

/// Connects to a server, and requests a file.
fn connect(server: SocketAddr, settings: &Settings) -> Result<Outcome, String> {
    let Ok(mut client) = Endpoint::connect(server, settings, HANDSHAKE) else {
        return Ok(Outcome::Refused);
    };
    http3::open(&mut client, &[]);
    if ask(&mut client, SMALL).is_err() {
        return Ok(Outcome::Refused);
    }
    // Tickets arrive with the end of the handshake or after it.
    client.pump(Duration::from_millis(100))?;
    let kind = client.handshake_kind();
    client.close();
    Ok(if kind == Some(HandshakeKind::Resumed) { Outcome::Resumed } else { Outcome::Full })
}

const KEYS: [&str; 2] = ["--ticket-keys", "{folder}/keys"];
const ANYONE: &[&str] = &[];
const LATE: &[&str] = &["--no-early-data"];
const MAY: &[&str] = &["--client-ca", "{folder}/a.pem", "--client-certificate", "optional"];
const MUST_A: &[&str] = &["--client-ca", "{folder}/a.pem"];
const MUST_A_LATE: &[&str] = &["--client-ca", "{folder}/a.pem", "--no-early-data"];
const MUST_B: &[&str] = &["--client-ca", "{folder}/b.pem"];

/// A test case: a description, whether the client has a certificate, the options of the server that
/// issues the session and of the one that resumes it, and the expected outcome.
type Case = (&'static str, bool, &'static [&'static str], &'static [&'static str], Outcome);

const CASES: [Case; 9] = [
    ("no certificate although one is required", false, ANYONE, MUST_A, Outcome::Refused),
    ("no certificate where one was optional", false, MAY, MUST_A, Outcome::Refused),
    ("a certificate that was not requested", true, ANYONE, MUST_A, Outcome::Full),
    ("a certificate of another authority", true, MUST_A, MUST_B, Outcome::Refused),
    ("a certificate that is no longer requested", true, MUST_A, ANYONE, Outcome::Full),
    ("the same, with early data", false, ANYONE, ANYONE, Outcome::Full),
    ("the same", false, LATE, LATE, Outcome::Resumed),
    ("the same, with a certificate", true, MUST_A_LATE, MUST_A_LATE, Outcome::Resumed),
    ("the same, with a certificate and early data", true, MUST_A, MUST_A, Outcome::Full),
];

/// Checks that a server accepts a ticket only if it would also accept the client without it.
fn tickets(scene: &mut Scene<'_>) -> Result<(), String> {
    let site = Site::new(scene)?;
    for (what, has_certificate, before, after, expected) in CASES {
        let settings = settings(scene, has_certificate.then_some(&site.client));
        let (first, address) = site.serve(scene, &[&KEYS, before].concat())?;
        let begun = connect(address, &settings)?;
        scene.check(begun == Outcome::Full, || format!("{what}: the first connection: {begun:?}"));
        drop(first);
        let (_second, address) = site.serve(scene, &[&KEYS, after].concat())?;
        // A resumed session yields a new ticket.
        for _ in 0..2 {
            let outcome = connect(address, &settings)?;
            scene.check(outcome == expected, || {
                format!("{what}: {outcome:?} instead of {expected:?}")
            });
            if expected == Outcome::Full {
                break;
            }
        }
        check_interrupt()?;
    }
    replaced(scene, &site)
}

/// Replaces the CA while the server is running.
fn replaced(scene: &mut Scene<'_>, site: &Site) -> Result<(), String> {
    let settings = settings(scene, Some(&site.client));
    let failed = |error: std::io::Error| error.to_string();
    fs::copy(site.folder.join("a.pem"), site.folder.join("now.pem")).map_err(failed)?;
    let options = ["--client-ca", "{folder}/now.pem"];
    let (server, address) = site.serve(scene, &[&KEYS[..], &options].concat())?;
    let before = [connect(address, &settings)?, connect(address, &settings)?];
    let expected = [Outcome::Full, Outcome::Resumed];
    scene.check(before == expected, || format!("before the authority was replaced: {before:?}"));
    fs::copy(site.folder.join("b.pem"), site.folder.join("now.pem")).map_err(failed)?;
    let process = Pid::from_raw(server.id().cast_signed()).ok_or("a process")?;
    kill_process(process, Signal::HUP).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut after = Outcome::Resumed;
    while after != Outcome::Refused && began.elapsed() < FOLLOWING {
        after = connect(address, &settings)?;
        check_interrupt()?;
    }
    scene.check(after == Outcome::Refused, || {
        "a ticket is still accepted after its authority was \
        removed"
            .to_owned()
    });
    Ok(())
}

/// Returns the number of responses that a server has started, according to its metrics.
fn responses(metrics: SocketAddr) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("metrics: {error}");
    let mut stream = TcpStream::connect(metrics).map_err(failed)?;
    stream.set_read_timeout(Some(HANDSHAKE)).map_err(failed)?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .map_err(failed)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(failed)?;
    let samples = text.lines().filter(|line| line.contains("http3_responses_total"));
    let values: Vec<f64> =
        samples.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
    match text.contains("# EOF") {
        true => Ok(values.iter().sum::<f64>() as u64),
        false => Err(format!("the metrics are incomplete: {text}")),
    }
}

/// Starts a server with metrics. Returns the server, its address and the metrics address.
fn metered(scene: &Scene<'_>, site: &Site) -> Result<(Server, SocketAddr, SocketAddr), String> {
    let metrics = crate::attack::free_tcp_address()?;
    let address = metrics.to_string();
    let (server, listens) = site.serve(scene, &[&KEYS[..], &["--metrics", &address]].concat())?;
    Ok((server, listens, metrics))
}

/// Returns the datagrams of a client that sends a request in early data.
fn early_flight(server: SocketAddr, settings: &Settings) -> Result<Vec<Vec<u8>>, String> {
    let mut client = Endpoint::begin(server, settings)?;
    let control = stream_frame(2, 0, &[0, 4, 0], false);
    let request = stream_frame(0, 0, &get("/other.txt"), true);
    let early =
        client.early_packet(&[control, request].concat()).ok_or("a ticket for early data")?;
    let first = client.first_flight_packet();
    Ok(vec![first, early])
}

/// Resends recorded datagrams unchanged, from a new port.
fn send(scene: &Scene<'_>, server: SocketAddr, datagrams: &[Vec<u8>]) -> Result<(), String> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    for datagram in datagrams {
        scene.counter.add(datagram.len());
        socket.send_to(datagram, server).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Replays early data (RFC 8446 §8) to the same server, to another server with the same keys, and
/// to the server's successor.
fn replay(scene: &mut Scene<'_>) -> Result<(), String> {
    let site = Site::new(scene)?;
    let (first, address, metrics) = metered(scene, &site)?;
    let (_sibling, beside, beside_metrics) = metered(scene, &site)?;
    // A server accepts early data only with tickets that are younger than its record of used
    // tickets.
    connect(beside, &settings(scene, None))?;
    std::thread::sleep(SECOND);
    let client = settings(scene, None);
    connect(address, &client)?;
    let flight = early_flight(address, &client)?;
    let wait = |metrics, least| -> Result<u64, String> {
        let began = Instant::now();
        loop {
            let count = responses(metrics)?;
            if count >= least || began.elapsed() > Duration::from_secs(1) {
                return Ok(count);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (before, before_beside) = (responses(metrics)?, responses(beside_metrics)?);
    send(scene, address, &flight)?;
    let once = wait(metrics, before + 1)? - before;
    scene.check(once == 1, || format!("early data got {once} responses"));
    for _ in 0..20 {
        send(scene, address, &flight)?;
        send(scene, beside, &flight)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    let again = wait(metrics, before + 2)? - before;
    let other = wait(beside_metrics, before_beside + 2)? - before_beside;
    scene.check(again == 1, || format!("{} replays were answered", again - 1));
    // Each server records only the tickets it has seen itself, so one replay to each server can
    // succeed. Only safe methods are answered.
    scene.check(other <= 1, || format!("another server answered {other} replays"));
    drop(first);
    let (_next, address, metrics) = metered(scene, &site)?;
    for _ in 0..20 {
        send(scene, address, &flight)?;
    }
    let after = wait(metrics, 1)?;
    scene.check(after == 0, || format!("{after} replays were answered after a restart"));
    scene.notes.push(format!("responses: {again} and {other}, {after} after a restart"));
    Ok(())
}

/// Sends certificate chains that are as expensive to verify as possible within the limits.
fn bombs(scene: &mut Scene<'_>) -> Result<(), String> {
    let site = Site::new(scene)?;
    let (server, address) = site.serve(scene, MUST_A)?;
    let watch = Watch::start(server.id(), &scene.folder);
    let settings = settings(scene, Some(&site.bomb));
    for _ in 0..150 {
        let outcome = Endpoint::connect(address, &settings, HANDSHAKE);
        scene.check(outcome.is_err(), || "a chain without a root was accepted".to_owned());
        check_interrupt()?;
    }
    scene.measured = Some(watch.stop());
    Ok(())
}
