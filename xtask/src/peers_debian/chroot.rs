//! The Debian sid chroot, and the programs that run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::mirror::mirror;

/// The Debian packages to install. H2O is not available in sid.
const PACKAGES: [&str; 7] = ["curl", "nginx", "haproxy", "caddy", "firefox", "chromium", "openssl"];
/// The file in the chroot that marks the installation as complete.
const COMPLETE: &str = "var/lib/clearway-peers";
/// Path of the file that keeps packages from starting their services in the chroot.
const NO_SERVICES: &str = "usr/sbin/policy-rc.d";
/// Path in the chroot of the folder that the tests use.
const SHARED: &str = "srv/clearway";

/// A Debian system in a folder. It shares the host's network.
pub(crate) struct Chroot {
    root: PathBuf,
}

impl Chroot {
    /// Creates the chroot in `folder`, unless it already exists and is complete.
    pub(crate) fn prepare(folder: &Path) -> Result<Self, String> {
        let chroot = Self { root: folder.join("root") };
        if !chroot.root.join(COMPLETE).exists() {
            chroot.make()?;
        }
        Ok(chroot)
    }

    fn make(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("creating a chroot requires root".to_owned());
        }
        if !self.root.join("usr/bin/apt-get").exists() {
            let mut debootstrap = Command::new("debootstrap");
            debootstrap.args(["--variant=minbase", "sid"]).arg(&self.root).arg(mirror()?);
            command::run("creating a Debian sid chroot", &mut debootstrap)?;
        }
        let failed = |error| format!("{}: {error}", self.root.display());
        fs::write(self.root.join(NO_SERVICES), "#!/bin/sh\nexit 101\n").map_err(failed)?;
        let mut executable = Command::new("chmod");
        executable.arg("+x").arg(self.root.join(NO_SERVICES));
        command::output("chmod", &mut executable)?;
        let settings = apt_settings();
        let apt = |words: &[&str]| {
            let mut apt = self.program("apt-get");
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            apt.args(["-q", "-o", "Acquire::Check-Valid-Until=false"]).args(&settings).args(words);
            apt
        };
        command::run("reading the package lists", &mut apt(&["update"]))?;
        let mut install = apt(&["install", "--yes", "--no-install-recommends"]);
        command::run("installing the peers", install.args(PACKAGES))?;
        fs::write(self.root.join(COMPLETE), "").map_err(failed)
    }

    /// Returns a command that runs `name` in the chroot. The command's process ID is that of the
    /// program.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.root).arg(name);
        command
    }

    /// Returns a command that runs `name` in the chroot with `/proc`, in separate namespaces. When
    /// the command is killed, the kernel kills all processes in these namespaces.
    pub(crate) fn isolated(&self, name: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child=KILL"]);
        command.arg(format!("--mount-proc={}", self.root.join("proc").display()));
        command.arg("chroot").arg(&self.root).arg(name);
        command
    }

    /// Returns the host path of the folder that the tests use.
    pub(crate) fn shared(&self) -> PathBuf {
        self.root.join(SHARED)
    }

    /// Returns the path in the chroot of a file in the tests' folder.
    pub(crate) fn inside(&self, name: &str) -> String {
        format!("/{SHARED}/{name}")
    }

    /// Returns the host path that corresponds to a path in the chroot.
    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the installed version of each peer, one per line.
    pub(crate) fn versions(&self) -> Result<String, String> {
        let mut query = self.program("dpkg-query");
        query.args(["--show", "--showformat=${Package} ${Version}\n"]).args(PACKAGES);
        command::output("dpkg-query", &mut query)
    }
}

/// Returns the host's proxy and certificate settings as apt options. All other settings that apt
/// needs are in the environment.
fn apt_settings() -> Vec<String> {
    let dump = command::output("apt-config", Command::new("apt-config").arg("dump"));
    let dump = dump.unwrap_or_default();
    let wanted = |line: &&str| {
        ["Acquire::http::", "Acquire::https::"].iter().any(|prefix| line.starts_with(prefix))
    };
    let option = |line: &str| {
        let (name, value) = line.trim_end_matches(';').split_once(' ')?;
        Some(["-o".to_owned(), format!("{name}={}", value.trim_matches('"'))])
    };
    dump.lines().filter(wanted).filter_map(option).flatten().collect()
}
