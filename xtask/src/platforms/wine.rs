//! The program for Windows, under Wine: it downloads from itself, and from and to the program for
//! Linux. Wine shares the loopback interface.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::install;
use crate::bounded::{Server, finish};
use crate::command::{self, cargo};

/// The C compiler and linker.
pub(super) const MINGW: &str = "x86_64-w64-mingw32-gcc";
/// Time limit for Wine to create its folder.
const INITIALIZING: Duration = Duration::from_secs(180);
/// Time limit of a download.
const DOWNLOAD: Duration = Duration::from_secs(180);
/// Size of the downloaded file, in bytes.
const SIZE: usize = 100_000_000;
/// A DLL that Wine before 8.13 does not have.
const DLL: &str = include_str!("wine_bcryptprimitives.c");

/// Builds the program for Windows, and returns its path.
pub(super) fn link(target: &str) -> Result<PathBuf, String> {
    let build = ["build", "--package", "clearway-cli", "--bin", "clearway", "--target", target];
    command::run(&format!("linking clearway for {target}"), &mut cargo(&build))?;
    Ok(command::target().join(target).join("debug/clearway.exe"))
}

/// The two systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum System {
    Linux,
    Windows,
}

/// The pairs of server and client.
const PAIRS: [(System, System); 3] = [
    (System::Windows, System::Windows),
    (System::Windows, System::Linux),
    (System::Linux, System::Windows),
];

/// Downloads a file between the two programs in each pairing, and compares its bytes. Returns the
/// number of downloads.
pub(super) fn run(windows: &Path) -> Result<usize, String> {
    install::debian(&["wine", "wine64"], "wine")?;
    let linux = command::tested("clearway")?;
    let bench = Bench::new(windows, linux)?;
    for (server, client) in PAIRS {
        eprintln!("xtask: a server on {server:?} and a client on {client:?}");
        bench
            .download(server, client)
            .map_err(|error| format!("server on {server:?}, client on {client:?}: {error}"))?;
    }
    Ok(PAIRS.len())
}

/// The programs, and the folder with Wine's files and those that are downloaded.
struct Bench {
    folder: PathBuf,
    windows: PathBuf,
    linux: PathBuf,
}

impl Bench {
    fn new(windows: &Path, linux: PathBuf) -> Result<Self, String> {
        let folder = command::target().join("platforms/wine");
        let failed = |error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder.join("site")).map_err(failed)?;
        let copy = folder.join("clearway.exe");
        fs::copy(windows, &copy).map_err(failed)?;
        write_content(&folder.join("site/file")).map_err(failed)?;
        let bench = Self { folder, windows: copy, linux };
        bench.build_dll()?;
        let mut boot = bench.wine();
        boot.args(["wineboot", "--init"]);
        finish(boot, INITIALIZING)?.success()?;
        Ok(bench)
    }

    /// Builds the DLL that old versions of Wine lack beside the program.
    fn build_dll(&self) -> Result<(), String> {
        let source = self.folder.join("wine_bcryptprimitives.c");
        fs::write(&source, DLL).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut gcc = Command::new(MINGW);
        gcc.args(["-shared", "-O1", "-Wall", "-Werror", "-o"]);
        gcc.arg(self.folder.join("bcryptprimitives.dll")).arg(source).arg("-ladvapi32");
        command::run("building a DLL that Wine lacks", &mut gcc)
    }

    /// Returns a command with Wine's variables, to which the program to run has to be added.
    fn wine(&self) -> Command {
        let prefix = format!("WINEPREFIX={}", self.folder.join("prefix").display());
        let mut wine = Command::new("env");
        wine.args([&prefix, "WINEARCH=win64", "WINEDEBUG=-all", "wine"]);
        wine
    }

    /// Returns a command that runs the program of `system`.
    fn program(&self, system: System) -> Command {
        match system {
            System::Linux => Command::new(&self.linux),
            System::Windows => {
                let mut wine = self.wine();
                wine.arg(&self.windows);
                wine
            }
        }
    }

    /// Returns the path of a file in the folder, as `system` names it.
    fn path(&self, system: System, name: &str) -> String {
        let path = self.folder.join(name);
        match system {
            System::Linux => path.display().to_string(),
            // Wine's drive Z is the root of this system.
            System::Windows => format!("Z:{}", path.display()),
        }
    }

    fn download(&self, server: System, client: System) -> Result<(), String> {
        let mut serve = self.program(server);
        serve.args(["serve", &self.path(server, "site"), "--listen", "127.0.0.1:0"]);
        serve.args(["--save-cert", &self.path(server, "cert.pem")]);
        let mut running = Server::start(serve, &self.folder.join("server.log"))?;
        running.wait(|log| address(log).is_some())?;
        let log = running.log();
        let url = format!("https://{}/file", address(&log).ok_or("no address")?);
        let got = self.folder.join("got");
        // It may not be there.
        let _ = fs::remove_file(&got);
        let mut get = self.program(client);
        get.args(["get", "--quiet", "--ca", &self.path(client, "cert.pem")]);
        get.args(["--output", &self.path(client, "got"), &url]);
        finish(get, DOWNLOAD)?.success()?;
        match is_same(&self.folder.join("site/file"), &got) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the downloaded bytes differ from those served".to_owned()),
            Err(error) => Err(format!("cannot read the downloaded file: {error}")),
        }
    }
}

/// Returns the address in `listening on https://ADDRESS (h3)`.
fn address(log: &str) -> Option<&str> {
    let line = log.lines().find_map(|line| line.strip_prefix("listening on https://"))?;
    line.split_once(' ').map(|(address, _)| address)
}

/// Writes a file whose bytes do not repeat: each word is the previous one, multiplied (Knuth's
/// MMIX generator).
fn write_content(path: &Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut state = 1_u64;
    for _ in 0..SIZE / 4 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [.., a, b, c, d] = state.to_le_bytes();
        file.write_all(&[a, b, c, d])?;
    }
    file.flush()
}

/// Returns whether two files have the same bytes.
fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let read = |path: &Path| {
        let mut bytes = Vec::with_capacity(SIZE);
        fs::File::open(path)?.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    Ok(read(one)? == read(other)?)
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_address_is_in_the_log_when_its_line_is_complete() {
        let line = "clients can trust it\nlistening on https://127.0.0.1:5 (h3)\n";
        assert_eq!(address(line), Some("127.0.0.1:5"));
        assert_eq!(address("listening on https://127.0.0.1:5"), None);
        assert_eq!(address(""), None);
    }
}
