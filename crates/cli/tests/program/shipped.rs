//! Runs the shipped files of `packaging` and `docs/fleet`: each unit in its own sandbox, on
//! addresses of this machine, with the features that the unit and its settings show.

mod unit;

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Scratch, clearway, succeed};
use unit::{Service, Unit};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a file of `docs/fleet`.
fn shipped(name: &str) -> String {
    read(&format!("docs/fleet/{name}"))
}

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The deployment that the files describe, on loopback addresses with free ports.
struct Site {
    scratch: Scratch,
    /// Replacements for addresses and paths in commands and files, longer ones first.
    places: Vec<(String, String)>,
}

impl Site {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        scratch.fill("www/file", 100_000);
        let identity = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        fs::write(scratch.path("cert.pem"), identity.cert.pem()).unwrap();
        fs::write(scratch.path("key.pem"), identity.signing_key.serialize_pem()).unwrap();
        fs::write(scratch.path("tickets"), "5a".repeat(32)).unwrap();
        let (udp, tcp) = (|| free(UdpSocket::bind), || free(TcpListener::bind));
        let places = [
            ("/usr/bin/clearway", env!("CARGO_BIN_EXE_clearway").to_owned()),
            ("/srv/www", scratch.path("www")),
            ("/etc/clearway", scratch.path("")),
            ("/run/clearway-serve", scratch.path("run-serve")),
            ("/run/clearway-balance", scratch.path("run-balance")),
            ("${CREDENTIALS_DIRECTORY}", scratch.path("")),
            ("192.0.2.1:443", udp()),
            ("10.0.1.1:443", udp()),
            ("10.0.1.2:443", udp()),
            ("10.0.1.3:443", udp()),
            ("127.0.0.1:9434", tcp()),
            ("127.0.0.1:9433", tcp()),
            ("10.0.0.1", "127.0.0.1".to_owned()),
            ("10.0.0.2", "127.0.0.2".to_owned()),
        ];
        let places = places.map(|(from, to)| (from.to_owned(), to)).into();
        let site = Self { scratch, places };
        for folder in ["run-serve", "run-balance"] {
            fs::create_dir(site.scratch.path(folder)).unwrap();
            site.open(folder);
        }
        for name in ["backends.toml", "quic-lb.toml"] {
            fs::write(site.scratch.path(name), site.here(&shipped(name))).unwrap();
        }
        site
    }

    /// Returns a text with the addresses and paths of this test deployment.
    fn here(&self, text: &str) -> String {
        let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
        self.places.iter().fold(text.to_owned(), replace)
    }

    fn place(&self, name: &str) -> &str {
        &self.places.iter().find(|(from, _)| from == name).unwrap().1
    }

    /// Returns the unit of a balancer.
    fn balance(&self) -> Unit {
        let settings = read("packaging/etc/balance.conf").replace("0.0.0.0:443", "192.0.2.1:443");
        self.unit("clearway-balance@.service", &settings)
    }

    /// Returns the unit of a server behind balancers, with the settings that the documentation
    /// shows for it.
    fn serve(&self) -> Unit {
        let settings = read("packaging/etc/serve.conf").replace("0.0.0.0:443", "10.0.1.1:443");
        self.unit("clearway-serve@.service", &settings.replace("#OPTIONS", "OPTIONS"))
    }

    fn unit(&self, name: &str, settings: &str) -> Unit {
        let text = read(&format!("packaging/systemd/{name}"));
        Unit::parse(&self.here(&text)).with_variables(&self.here(settings))
    }

    /// Downloads the file through the balancer.
    fn get(&self) {
        let port = self.place("192.0.2.1:443").rsplit_once(':').unwrap().1;
        let url = format!("https://localhost:{port}/file");
        let (ca, output) = (self.scratch.path("cert.pem"), self.scratch.path("downloaded"));
        let address = self.place("192.0.2.1:443");
        succeed(&["get", "--quiet", "--ca", &ca, "--connect", address, "-o", &output, &url]);
        assert_eq!(fs::read(output).unwrap().len(), 100_000);
    }
}

/// Returns a loopback address with a free port.
fn free<T: Bound>(bind: impl Fn(&'static str) -> std::io::Result<T>) -> String {
    bind("127.0.0.1:0").unwrap().local()
}

trait Bound {
    fn local(&self) -> String;
}

impl Bound for UdpSocket {
    fn local(&self) -> String {
        self.local_addr().unwrap().to_string()
    }
}

impl Bound for TcpListener {
    fn local(&self) -> String {
        self.local_addr().unwrap().to_string()
    }
}

/// Returns the metrics of a program.
fn metrics(address: &str) -> String {
    let mut response = ureq::get(format!("http://{address}/metrics")).call().unwrap();
    response.body_mut().read_to_string().unwrap()
}

/// Waits until the metrics contain a line, and returns the metrics.
fn wait_for(address: &str, line: &str) -> String {
    let begun = Instant::now();
    loop {
        let text = metrics(address);
        if text.lines().any(|it| it.strip_suffix(".0").unwrap_or(it) == line) {
            return text;
        }
        assert!(begun.elapsed() < TIMEOUT, "{line} never appears: {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Tests all files for systems with systemd units: a balancer and a server run, a download and a
/// reload succeed, the doctor in each has a verdict, and the dashboard shows existing metrics.
#[test]
fn the_units_run_in_their_sandboxes_with_all_that_they_show() {
    let site = Site::new("shipped-units");
    let (serve, balance) = (site.serve(), site.balance());
    for check in balance.all("ExecStartPre") {
        let output = balance.command(check).output().unwrap();
        assert!(output.status.success(), "{check}: {output:?}");
    }
    let server = Service::start(&serve);
    let balancer = Service::start(&balance);
    let (at_server, at_balancer) = (site.place("127.0.0.1:9433"), site.place("127.0.0.1:9434"));
    wait_for(at_balancer, "clearway_balance_server_state{server=\"web-1\",state=\"active\"} 1");
    // The other two servers do not exist, and receive no clients after this has been detected.
    for other in ["web-2", "web-3"] {
        let state = format!("clearway_balance_server_state{{server=\"{other}\",state=\"down\"}} 1");
        wait_for(at_balancer, &state);
    }
    site.get();
    let verdict = "clearway_doctor_verdict{outcome=\"no_loss\"} 1";
    let exported = wait_for(at_server, verdict) + &wait_for(at_balancer, verdict);
    the_dashboard_shows(&exported);
    // The balancers' file changes.
    let file = site.scratch.path("backends.toml");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("20260501", "20260502")).unwrap();
    let reload = |service: &Service, unit: &Unit| {
        assert!(unit.all("ExecReload").all(|it| it == "/bin/kill -HUP $MAINPID"));
        service.signal(Signal::HUP);
    };
    reload(&balancer, &balance);
    wait_for(at_balancer, "clearway_balance_reloads_total{outcome=\"ok\"} 1");
    reload(&server, &serve);
    site.get();
    for (service, unit) in [(balancer, &balance), (server, &serve)] {
        let limit = unit.all("TimeoutStopSec").next().map_or(90, |it| it.parse().unwrap());
        service.signal(Signal::TERM);
        service.end(Duration::from_secs(limit));
    }
}

/// A doctor that an operator runs under the same restrictions sees every stage that it sees without
/// them.
#[test]
fn the_sandboxes_of_the_units_do_not_blind_the_doctor() {
    let site = Site::new("shipped-doctor");
    for (name, unit) in [("serve", site.serve()), ("balance", site.balance())] {
        let program = site.place("/usr/bin/clearway");
        let output = unit.command(&format!("{program} doctor --for 300ms")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("receiving"), "{name}: {output:?}");
        assert!(!said.contains("not permitted here"), "{name}: {said}");
    }
}

/// If the sandbox has fewer permissions, the doctor names the sandbox as the reason, and not the
/// kernel.
#[test]
fn a_doctor_in_a_narrow_sandbox_blames_the_sandbox() {
    let site = Site::new("shipped-narrow");
    let narrow = Unit::parse("[Service]\nRestrictAddressFamilies=AF_INET AF_INET6\n");
    let program = site.place("/usr/bin/clearway");
    let output = narrow.command(&format!("{program} doctor --for 300ms")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("device: devices: not permitted here (a sandbox?) (needed: AF_NETLINK"),
        "{said}"
    );
    assert!(!said.contains("devices: not supported by this kernel"), "{said}");
    // Other tests may lose packets on this host at the same time.
    assert_ne!(output.status.code(), Some(0), "there may be losses that are not visible: {said}");
}

/// A second instance of a unit replaces the first one, which exits successfully: systemd does not
/// restart it.
#[test]
fn instances_of_the_units_replace_each_other() {
    let site = Site::new("shipped-replaced");
    for unit in [site.serve(), site.balance()] {
        assert!(unit.all("Restart").all(|it| it == "on-failure"));
        let old = Service::start(&unit);
        let new = Service::start(&unit);
        old.end(TIMEOUT);
        new.signal(Signal::TERM);
        new.end(TIMEOUT);
    }
}

impl Site {
    /// Makes a directory writable for every user, as the service manager does with a runtime
    /// directory.
    fn open(&self, folder: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.scratch.path(folder);
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
}

/// Checks that every metric on the dashboard is exported.
fn the_dashboard_shows(exported: &str) {
    let path = format!("{}/../../docs/grafana-dashboard.json", env!("CARGO_MANIFEST_DIR"));
    let dashboard = fs::read_to_string(path).unwrap();
    let families: BTreeMap<&str, &str> =
        exported.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let names = dashboard.split(|it| !is_name(it)).filter(|it| it.starts_with("clearway_"));
    let mut count = 0;
    for name in names {
        let suffixes = ["", "_total", "_bucket", "_sum", "_count", "_info"];
        let is_there = suffixes.iter().filter_map(|it| name.strip_suffix(it));
        let is_there = is_there.into_iter().any(|it| families.contains_key(it));
        assert!(is_there, "the dashboard shows {name}, which nothing exports");
        count += 1;
    }
    assert!(count > 30, "{count}");
}

/// The configurations in the containers of `kubernetes.yaml` and the Dockerfile are valid for the
/// program.
#[test]
fn the_files_in_secrets_are_valid() {
    let site = Site::new("shipped-secrets");
    let text = shipped("kubernetes.yaml");
    let mut files = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(name) = line.trim().strip_suffix(": |").filter(|it| it.ends_with(".toml")) else {
            continue;
        };
        let depth = |line: &str| line.len() - line.trim_start().len();
        let mut content = String::new();
        while let Some(inner) = lines.next_if(|it| it.is_empty() || depth(it) > depth(line)) {
            content.push_str(inner.trim_start());
            content.push('\n');
        }
        files.insert(name.to_owned(), content);
    }
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["backends.toml", "web-0.toml", "web-1.toml", "web-2.toml"]);
    for (name, content) in &files {
        let path = site.scratch.path(name);
        fs::write(&path, content).unwrap();
        if name == "backends.toml" {
            succeed(&["balance", "--check", "--backends", &path]);
        } else {
            // Each file names its own server, and all contain the balancers' key.
            let server = name.trim_end_matches(".toml");
            let id = content.lines().find_map(|line| line.strip_prefix("server-id = ")).unwrap();
            assert!(files["backends.toml"].contains(&format!("{server} = {id}")), "{name}");
            let key = content.lines().find(|line| line.starts_with("key = ")).unwrap();
            assert!(files["backends.toml"].contains(key), "{name}");
            it_serves_with(&site, &path);
        }
    }
    it_serves_with(&site, &site.scratch.path("quic-lb.toml"));
    let missing = clearway(&["balance", "--check", "--backends", "/nonexistent"]).output().unwrap();
    assert!(!missing.status.success(), "--check accepts a missing file");
}

/// Starts a server with a `--quic-lb` file.
fn it_serves_with(site: &Site, quic_lb: &str) {
    let root = site.scratch.path("www");
    let start = format!(
        "{} serve {root} --listen 127.0.0.1:0 --balancer 127.0.0.1 --quic-lb {quic_lb}",
        env!("CARGO_BIN_EXE_clearway")
    );
    let mut unit = Unit::parse("[Service]\n");
    unit.set("ExecStart", &start);
    let service = Service::start(&unit);
    service.signal(Signal::TERM);
    service.end(TIMEOUT);
}

/// An image contains the files that it needs, but no build products of the person who builds it.
#[test]
fn the_image_is_built_from_the_sources_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dockerfile = shipped("Dockerfile");
    assert!(dockerfile.contains("COPY . ."));
    let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
    for folder in ["target", ".git"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder}");
    }
    let profile = dockerfile.split("--profile ").nth(1).unwrap().split(' ').next().unwrap();
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(workspace.contains(&format!("[profile.{profile}]")), "{profile}");
    assert!(dockerfile.contains(&format!("/{profile}/clearway /clearway")));
}
