//! A minimal Debian system in a folder. Its programs run in containers without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bounded::{Finished, finish};
use crate::command::{self, target};
use crate::mirror::mirror;

/// The release of Debian.
const SUITE: &str = "bookworm";
/// Packages in addition to the minimal system: readers for the manual pages and completion scripts,
/// and an init system for the units.
const PACKAGES: &str = "man-db,zsh,fish,dbus,systemd-sysv";
/// Programs that this machine needs, with the packages that contain them.
const TOOLS: [(&str, &str); 2] =
    [("debootstrap", "debootstrap"), ("systemd-nspawn", "systemd-container")];
/// The beginning of each script, which exits at the first error and runs in an empty folder.
const PRELUDE: &str = "set -eu -o pipefail\ncd \"$(mktemp --directory)\"\n";
/// Runs a script when the system has booted. The container then exits, with status 1 after a
/// failure.
const UNIT: &str = "\
[Unit]
After=multi-user.target
SuccessAction=exit-force
SuccessActionExitStatus=0
FailureAction=exit-force
FailureActionExitStatus=1
[Service]
Type=oneshot
ExecStart=/bin/bash /check/script /usr/bin/clearway
StandardOutput=file:/check/log
StandardError=inherit
[Install]
WantedBy=graphical.target
";

/// A system in a folder, which is removed when dropped.
pub(super) struct System {
    root: PathBuf,
}

impl System {
    /// Makes the system. Installs missing tools on this machine.
    pub(super) fn make() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("making a chroot needs root".to_owned());
        }
        for (program, package) in TOOLS {
            let is_there = Command::new(program).arg("--version").output().is_ok();
            if !is_there {
                let mut install = Command::new("apt-get");
                install.args(["install", "--yes", "--no-install-recommends", package]);
                command::run(&format!("installing {package}"), &mut install)?;
            }
        }
        let system = Self { root: target().join("dist-check") };
        system.remove()?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include", PACKAGES, SUITE]);
        debootstrap.arg(&system.root).arg(mirror()?);
        command::run(&format!("making a Debian {SUITE} chroot"), &mut debootstrap)?;
        let hosts = system.path("etc/hosts");
        fs::write(&hosts, "127.0.0.1 localhost\n::1 localhost\n")
            .map_err(|error| format!("{}: {error}", hosts.display()))?;
        Ok(system)
    }

    /// Returns the path on this machine of a path in the system.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Unpacks an archive in `/opt`.
    pub(super) fn unpack(&self, archive: &Path) -> Result<(), String> {
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--file"]).arg(archive).arg("--directory").arg(self.path("opt"));
        command::output("unpacking the archive", &mut unpack).map(drop)
    }

    /// Runs a script in the system, with an argument.
    pub(super) fn run(
        &self,
        script: &str,
        argument: &str,
        limit: Duration,
    ) -> Result<Finished, String> {
        self.write_script(script)?;
        let mut container = self.container();
        container.args(["--console=pipe", "/bin/bash", "/check/script", argument]);
        finish(container, limit)
    }

    /// Boots the system, and runs a script in it.
    pub(super) fn run_booted(&self, script: &str, limit: Duration) -> Result<Finished, String> {
        self.write_script(script)?;
        let unit = self.path("etc/systemd/system/clearway-check.service");
        let failed = |error| format!("{}: {error}", unit.display());
        fs::write(&unit, UNIT).map_err(failed)?;
        let mut enable = Command::new("systemctl");
        enable.arg("--root").arg(&self.root).args(["enable", "clearway-check.service"]);
        command::output("systemctl", &mut enable)?;
        let mut container = self.container();
        container.arg("--boot");
        let finished = finish(container, limit);
        let text = fs::read_to_string(self.path("check/log")).unwrap_or_default();
        fs::remove_file(&unit).map_err(failed)?;
        match finished {
            Ok(Finished { is_success, text: console }) if text.is_empty() => {
                Ok(Finished { is_success, text: console })
            }
            Ok(Finished { is_success, .. }) => Ok(Finished { is_success, text }),
            Err(error) => Err(format!("{error}\n{text}")),
        }
    }

    fn write_script(&self, script: &str) -> Result<(), String> {
        let path = self.path("check/script");
        let text = format!("{PRELUDE}{script}");
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns a command that runs a program in a container. When the command exits, the kernel
    /// ends the program.
    fn container(&self) -> Command {
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--register=no", "--keep-unit", "--private-network"]);
        command.arg("--directory").arg(&self.root);
        command
    }

    fn remove(&self) -> Result<(), String> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", self.root.display()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("xtask: {error}");
        }
    }
}
