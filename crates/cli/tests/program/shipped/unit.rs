//! A systemd unit, as far as it can run without systemd: its commands run as another user, with its
//! filter of address families.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// Environment variables with the allowed address families, and with the command to run under this
/// restriction.
const FAMILIES: &str = "CLEARWAY_TEST_FAMILIES";
const COMMAND: &str = "CLEARWAY_TEST_COMMAND";
/// systemd's error for a denied `socket` call (RestrictAddressFamilies).
const EAFNOSUPPORT: u32 = 97;
/// The system call number of `socket`.
#[cfg(target_arch = "x86_64")]
const SOCKET: i64 = 41;
#[cfg(not(target_arch = "x86_64"))]
const SOCKET: i64 = 198;
/// The unprivileged user.
const NOBODY: &str = "65534";
const TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a unit, in order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Unit(Vec<(String, String)>);

impl Unit {
    /// Parses a unit: comments, sections, settings, and continuation lines.
    pub(super) fn parse(text: &str) -> Self {
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        let settings = lines.filter(|line| !line.starts_with(['#', ';', '[']) && !line.is_empty());
        let setting = |line: &str| {
            let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        Self(settings.map(setting).collect())
    }

    /// Returns all values of a setting.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// Expands the variables of an `EnvironmentFile=` in all commands, as the service manager does:
    /// `${NAME}` expands within a word, and `$NAME` to any number of words.
    pub(super) fn with_variables(mut self, text: &str) -> Self {
        let mut variables = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            variables.extend(line.split_once('='));
        }
        for (name, value) in variables {
            for (_, command) in self.0.iter_mut().filter(|(it, _)| it.starts_with("Exec")) {
                let part = format!("${{{name}}}");
                *command = command.replace(&part, value).replace(&format!("${name}"), value);
            }
        }
        self
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(it, _)| it != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the numbers of the allowed address families; `None` if all are allowed.
    fn families(&self) -> Option<Vec<u64>> {
        let value = self.all("RestrictAddressFamilies").next()?;
        let number = |name: &str| match name {
            "AF_UNIX" => 1,
            "AF_INET" => 2,
            "AF_INET6" => 10,
            "AF_NETLINK" => 16,
            "AF_PACKET" => 17,
            "AF_XDP" => 44,
            other => panic!("unknown address family {other}"),
        };
        Some(value.split(' ').map(number).collect())
    }

    /// Returns a command of the unit in its sandbox. This test's own binary installs the filter,
    /// and then executes the command.
    pub(super) fn command(&self, line: &str) -> Command {
        let mut words: Vec<&str> = line.split(' ').collect();
        let nobody = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        if rustix::process::geteuid().is_root() {
            words.splice(0..0, nobody);
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "shipped::unit::becomes_a_service"]);
        command.env(COMMAND, words.join("\n"));
        if let Some(families) = self.families() {
            let families: Vec<_> = families.iter().map(u64::to_string).collect();
            command.env(FAMILIES, families.join(","));
        }
        command.stdin(Stdio::null());
        command
    }
}

#[test]
#[ignore = "not a test, but what a service is started with"]
fn becomes_a_service() {
    let Ok(line) = std::env::var(COMMAND) else { return };
    if let Ok(families) = std::env::var(FAMILIES) {
        let families = families.split(',').map(|it| it.parse().unwrap()).collect::<Vec<u64>>();
        apply_filter(&permitting(&families)).unwrap();
    }
    let words: Vec<&str> = line.split('\n').collect();
    // The test harness has begun a line, which this ends.
    println!();
    let error = Command::new(words[0]).args(&words[1..]).exec();
    panic!("{words:?}: {error}");
}

/// Returns a seccomp filter that allows `socket` calls only for these address families.
fn permitting(families: &[u64]) -> BpfProgram {
    let is_not = |family: &u64| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *family).unwrap()
    };
    let others = SeccompRule::new(families.iter().map(is_not).collect()).unwrap();
    let filter = SeccompFilter::new(
        [(SOCKET, vec![others])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(EAFNOSUPPORT),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    filter.unwrap().try_into().unwrap()
}

/// The socket that receives the notifications of a service.
struct Notifications {
    /// The value of `NOTIFY_SOCKET`.
    path: PathBuf,
    socket: UnixDatagram,
}

impl Notifications {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("clearway-notify-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        // The service runs as another user.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self { path, socket }
    }

    /// Waits for a moment. Returns whether the service has reported that it is ready.
    fn is_ready(&self) -> bool {
        let mut datagram = [0; 256];
        let length = self.socket.recv(&mut datagram).unwrap_or(0);
        datagram[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A running service; killed when dropped.
pub(super) struct Service {
    child: Child,
    /// The service's output lines, from both streams.
    lines: Receiver<String>,
}

impl Service {
    /// Starts the unit's program, and waits until it reports that it is ready (sd_notify(3)).
    pub(super) fn start(unit: &Unit) -> Self {
        let line = unit.all("ExecStart").next().unwrap();
        let mut command = unit.command(line);
        let notifications = Notifications::new();
        command.env("NOTIFY_SOCKET", &notifications.path);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let of_errors = sender.clone();
        thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .for_each(|it| drop(sender.send(it)));
        });
        thread::spawn(move || {
            BufReader::new(errors)
                .lines()
                .map_while(Result::ok)
                .for_each(|it| drop(of_errors.send(it)));
        });
        let mut service = Self { child, lines };
        let begun = Instant::now();
        while !notifications.is_ready() {
            let status = service.child.try_wait().unwrap();
            if status.is_some() || begun.elapsed() > TIMEOUT {
                let said: Vec<_> = service.lines.try_iter().collect();
                panic!("{line} is not ready: {said:?}, {status:?}");
            }
        }
        service
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the service ends successfully.
    pub(super) fn end(mut self, limit: Duration) {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begun.elapsed() < limit, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let said: Vec<_> = self.lines.try_iter().collect();
        assert!(status.success(), "{status}: {said:?}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_unit_is_read_as_the_service_manager_does() {
    let unit = Unit::parse("# A\n[Service]\nExecStart=/bin/a \\\n    --b c\nExecStart=d\n");
    assert_eq!(unit.all("ExecStart").collect::<Vec<_>>(), ["/bin/a --b c", "d"]);
    assert_eq!(unit.families(), None);
    let unit = Unit::parse("[Service]\nExecStart=/bin/a ${ONE} $MORE\n");
    let unit = unit.with_variables("# MORE=0\nONE=1\nMORE=\nMORE=--b c\n");
    assert_eq!(unit.all("ExecStart").collect::<Vec<_>>(), ["/bin/a 1 --b c"]);
}
