//! Where a server runs: on this host or behind its own link, and optionally with little disk space
//! or memory, or with faults on demand.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clearway_namespaces::{Namespace, ip};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::super::endpoint::Settings;
use super::faults::Faults;
use super::tool;

/// The server's address behind the link.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The server's end of the network link.
pub(super) const LINK: &str = "server";
/// Mount option for the size of a small disk: enough for the traces and log lines of all
/// connections before the storm.
const DISK: &str = "size=96m";
/// Memory limit of the small cgroup, in bytes.
const MEMORY: &str = "134217728";

/// The environment that a storm needs for its server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On this host, over loopback.
    Here,
    /// In a network namespace with a link to the clients' namespace.
    Link,
    /// Over loopback, with the storm's folder on a small file system that also receives the
    /// server's standard output.
    FullDisk,
    /// Over loopback, in a cgroup with 128 MiB of memory.
    SmallMemory,
    /// Over loopback, with system calls that fail or a clock that jumps on demand.
    Faulty,
}

/// A prepared environment for a server.
pub(super) struct Prepared {
    namespaces: Option<(Namespace, Namespace)>,
    program: PathBuf,
    mounted: Option<PathBuf>,
    cgroup: Option<PathBuf>,
    faults: Option<Faults>,
}

/// The network namespace in which the clients run.
pub(super) struct Clients(Option<Arc<File>>);

impl Clients {
    /// Moves the current thread into the clients' namespace.
    pub(super) fn enter(&self) {
        if let Some(file) = &self.0 {
            // On failure, the metrics cannot be read, so the storm's metric is reported as missing.
            let _ = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        }
    }
}

impl Place {
    /// Prepares the environment of the server.
    ///
    /// # Errors
    /// Returns an error if this environment is not available to this user or on this machine.
    pub(super) fn prepare(self, folder: &Path, program: &Path) -> Result<Prepared, String> {
        let program = program.to_owned();
        let mut prepared =
            Prepared { namespaces: None, program, mounted: None, cgroup: None, faults: None };
        match self {
            Self::Here => {}
            Self::Link => prepared.namespaces = Some(link()?),
            Self::FullDisk => {
                let path = folder.display().to_string();
                tool("mount", &["-t", "tmpfs", "-o", DISK, "clearway-storm", &path])?;
                prepared.mounted = Some(folder.to_owned());
            }
            Self::SmallMemory => prepared.cgroup = Some(cgroup()?),
            Self::Faulty => prepared.faults = Some(Faults::build(folder)?),
        }
        Ok(prepared)
    }
}

fn link() -> Result<(Namespace, Namespace), String> {
    let failed = |error: std::io::Error| error.to_string();
    let (clients, server) =
        (Namespace::create().map_err(failed)?, Namespace::create().map_err(failed)?);
    let other = server.process().to_string();
    let made = clients.run(|| {
        ip(&["link", "add", "clients", "type", "veth", "peer", "name", LINK, "netns", &other])?;
        ip(&["addr", "add", &format!("{CLIENTS}/24"), "dev", "clients"])?;
        ip(&["link", "set", "clients", "up"])?;
        ip(&["link", "set", "lo", "up"])
    });
    made.and_then(|made| made).map_err(failed)?;
    let made = server.run(|| {
        ip(&["addr", "add", &format!("{SERVER}/24"), "dev", LINK])?;
        ip(&["link", "set", LINK, "up"])?;
        ip(&["link", "set", "lo", "up"])
    });
    made.and_then(|made| made).map_err(failed)?;
    Ok((clients, server))
}

/// Creates a cgroup (version 1 or 2) with little memory.
fn cgroup() -> Result<PathBuf, String> {
    let root = Path::new("/sys/fs/cgroup");
    let (parent, file) = match root.join("cgroup.controllers").exists() {
        true => (root.to_owned(), "memory.max"),
        false => (root.join("memory"), "memory.limit_in_bytes"),
    };
    let path = parent.join(format!("clearway-storm-{}", std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir(&path).map_err(failed)?;
    std::fs::write(path.join(file), MEMORY).map_err(failed)?;
    Ok(path)
}

impl Prepared {
    /// Runs `action` in the clients' namespace.
    pub(super) fn run<T: Send>(
        &self,
        action: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        match &self.namespaces {
            Some((clients, _)) => clients.run(action).map_err(|error| error.to_string())?,
            None => action(),
        }
    }

    /// Runs `action` in the server's namespace.
    pub(super) fn at_server(
        &self,
        action: impl FnOnce() -> Result<(), String> + Send,
    ) -> Result<(), String> {
        match &self.namespaces {
            Some((_, server)) => server.run(action).map_err(|error| error.to_string())?,
            None => action(),
        }
    }

    pub(super) fn clients(&self) -> Clients {
        let path = self.namespaces.as_ref();
        let path = path.map(|(clients, _)| format!("/proc/{}/ns/net", clients.process()));
        Clients(path.and_then(|path| File::open(path).ok()).map(Arc::new))
    }

    /// Returns the address that the server listens on, with the same port as `free`.
    pub(super) fn address(&self, free: SocketAddr) -> SocketAddr {
        match self.namespaces {
            Some(_) => SocketAddr::new(IpAddr::V4(SERVER), free.port()),
            None => free,
        }
    }

    pub(super) fn settings(&self, mut settings: Settings) -> Settings {
        if self.namespaces.is_some() {
            settings.local = IpAddr::V4(CLIENTS);
        }
        settings
    }

    /// Returns the command that runs the server program with these arguments.
    pub(super) fn command(&self, words: &[String]) -> Command {
        if let Some((_, server)) = &self.namespaces {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/proc/{}/ns/net", server.process()));
            command.arg(&self.program).args(words);
            return command;
        }
        if let Some(cgroup) = &self.cgroup {
            let mut command = Command::new("sh");
            let script = "echo $$ > \"$1/cgroup.procs\" && shift && exec \"$@\"";
            command.args(["-c", script, "sh"]).arg(cgroup).arg(&self.program).args(words);
            return command;
        }
        if let Some(output) = self.output() {
            let mut command = Command::new("sh");
            let script = "output=\"$1\" && shift && exec \"$@\" > \"$output\"";
            command.args(["-c", script, "sh"]).arg(output).arg(&self.program).args(words);
            return command;
        }
        if let Some(faults) = &self.faults {
            let mut command = Command::new("env");
            command.args(faults.environment()).arg(&self.program).args(words);
            return command;
        }
        let mut command = Command::new(&self.program);
        command.args(words);
        command
    }

    /// Returns the peak memory use of the small cgroup in bytes.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let cgroup = self.cgroup.as_ref()?;
        let read = |name| std::fs::read_to_string(cgroup.join(name)).ok()?.trim().parse().ok();
        read("memory.peak").or_else(|| read("memory.max_usage_in_bytes"))
    }

    /// Returns the file that receives the server's standard output, if that is not the log.
    pub(super) fn output(&self) -> Option<PathBuf> {
        self.mounted.as_ref().map(|folder| folder.join("output"))
    }

    /// Returns the handle that causes faults.
    pub(super) fn faults(&self) -> Result<&Faults, String> {
        self.faults.as_ref().ok_or_else(|| "preloading is not supported here".to_owned())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(path) = &self.mounted {
            // A lazy unmount does not wait for open files.
            let _ = tool("umount", &["--lazy", &path.display().to_string()]);
        }
        if let Some(path) = &self.cgroup {
            // The kernel takes a moment to notice that the last process has exited.
            for _ in 0..50 {
                if std::fs::remove_dir(path).is_ok() {
                    break;
                }
                std::thread::sleep(crate::waiting::POLLING);
            }
        }
    }
}
