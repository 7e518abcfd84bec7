//! Runs the Windows program under Wine: it downloads from itself, and exchanges downloads with the
//! Linux program. Wine shares the loopback interface.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bounded::{Finished, Server, finish, last_lines};
use crate::command::{self, cargo};
use crate::install;

/// The C compiler and linker.
pub(super) const MINGW: &str = "x86_64-w64-mingw32-gcc";
/// Time limit for Wine to create its folder.
const INITIALIZING: Duration = Duration::from_secs(180);
/// Time limit of a download.
const DOWNLOAD: Duration = Duration::from_secs(180);
/// Size of the downloaded file, in bytes.
const SIZE: usize = 100_000_000;
/// The source of a DLL that Wine lacks before version 8.13.
const DLL: &str = include_str!("wine_bcryptprimitives.c");

/// Builds the Windows program, and returns its path.
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

/// Names that refer to the file `small` in a folder on Windows.
const FOUND: [&str; 2] = ["small", "SMALL"];
/// Names that must not refer to a served file on Windows: a stream, a drive, a device, and hidden
/// files.
const NOT_FOUND: [&str; 7] =
    ["small::$DATA", "small.", "C:/small", "NUL", "..%5csmall", ".hidden/small", "HIDDEN~1/small"];

/// Tests the Windows program: downloads in each pairing, whose bytes are compared, file names, and
/// commands that need Linux. Returns the number of tests.
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
    eprintln!("xtask: file names, and commands that need Linux");
    bench.look_up()?;
    bench.refuse("balance")?;
    bench.refuse("doctor")?;
    Ok(PAIRS.len() + 3)
}

/// The programs, and the folder with Wine's files and the downloads.
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

    /// Builds the DLL that old versions of Wine lack, next to the program.
    fn build_dll(&self) -> Result<(), String> {
        let source = self.folder.join("wine_bcryptprimitives.c");
        fs::write(&source, DLL).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut gcc = Command::new(MINGW);
        gcc.args(["-shared", "-O1", "-Wall", "-Werror", "-o"]);
        gcc.arg(self.folder.join("bcryptprimitives.dll")).arg(source).arg("-ladvapi32");
        command::run("building a DLL that Wine lacks", &mut gcc)
    }

    /// Returns a command with Wine's environment variables; the caller adds the program to run.
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

    /// Returns the path of a file in the folder, in the notation of `system`.
    fn path(&self, system: System, name: &str) -> String {
        let path = self.folder.join(name);
        match system {
            System::Linux => path.display().to_string(),
            // Wine's drive Z is the root of this system.
            System::Windows => format!("Z:{}", path.display()),
        }
    }

    /// Starts a server for the folder `site`, and returns the server and its URL.
    fn serve(&self, system: System) -> Result<(Server, String), String> {
        let mut serve = self.program(system);
        serve.args(["serve", &self.path(system, "site"), "--listen", "127.0.0.1:0"]);
        serve.args(["--save-cert", &self.path(system, "cert.pem")]);
        let mut server = Server::start(serve, &self.folder.join("server.log"))?;
        server.wait(|log| address(log).is_some())?;
        let log = server.log();
        Ok((server, format!("https://{}", address(&log).ok_or("the server printed no address")?)))
    }

    /// Downloads `url` to the file `got`.
    fn get(&self, system: System, url: &str) -> Result<Finished, String> {
        // The file may not exist.
        let _ = fs::remove_file(self.folder.join("got"));
        let mut get = self.program(system);
        get.args(["get", "--quiet", "--ca", &self.path(system, "cert.pem")]);
        get.args(["--output", &self.path(system, "got"), url]);
        finish(get, DOWNLOAD)
    }

    /// Downloads a file, and compares its bytes.
    fn download(&self, server: System, client: System) -> Result<(), String> {
        let (_running, url) = self.serve(server)?;
        self.get(client, &format!("{url}/file"))?.success()?;
        match is_same(&self.folder.join("site/file"), &self.folder.join("got")) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the downloaded bytes differ from those served".to_owned()),
            Err(error) => Err(format!("cannot read the downloaded file: {error}")),
        }
    }

    /// Checks which names refer to a file on Windows, and which do not.
    fn look_up(&self) -> Result<(), String> {
        let site = self.folder.join("site");
        let written = fs::create_dir_all(site.join(".hidden"))
            .and_then(|()| fs::write(site.join(".hidden/small"), "hidden"))
            .and_then(|()| fs::write(site.join("small"), "small"));
        written.map_err(|error| format!("{}: {error}", site.display()))?;
        let (_running, url) = self.serve(System::Windows)?;
        for name in FOUND {
            self.get(System::Linux, &format!("{url}/{name}"))?.success()?;
        }
        for name in NOT_FOUND {
            let got = self.get(System::Linux, &format!("{url}/{name}"))?;
            if got.is_success || !got.text.contains("404 Not Found") {
                return Err(format!("{name} should not be found: {}", last_lines(&got.text)));
            }
        }
        Ok(())
    }

    /// Checks that a command that needs Linux reports this.
    fn refuse(&self, command: &str) -> Result<(), String> {
        let mut program = self.program(System::Windows);
        program.args([command, "--an-option"]);
        let refused = finish(program, DOWNLOAD)?;
        match !refused.is_success && refused.text.contains("Linux") {
            true => Ok(()),
            false => Err(format!(
                "{command} does not report that it needs Linux: {}",
                last_lines(&refused.text)
            )),
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
