//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Returns the repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a `cargo` command in the repository's root, without the environment variables that
/// describe this program's package. If those variables change, build scripts run again, including
/// ring's, and then everything that depends on ring is recompiled.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let of_package = |name: &String| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for name in names.filter(of_package) {
        command.env_remove(name);
    }
    command
}

/// Runs `command` and returns its standard output. If it fails, the error contains its standard error.
pub(crate) fn output(what: &str, command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output
        .map_err(|error| format!("{what}: cannot run {:?}: {error}", command.get_program()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Duration above which a command's run time is reported.
const LONG: Duration = Duration::from_secs(10);

/// Runs `command` and shows its output. If it fails, the error contains the command.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<(), String> {
    run_with(what, command, |_| {})
}

/// Runs `command`, and calls `attend` while it runs. If the command fails, the error contains it.
pub(crate) fn run_with(
    what: &str,
    command: &mut Command,
    attend: impl FnOnce(&mut Child),
) -> Result<(), String> {
    eprintln!("xtask: {what}");
    let began = Instant::now();
    let status = command.spawn().and_then(|mut child| {
        attend(&mut child);
        child.wait()
    });
    let took = began.elapsed();
    if took > LONG {
        eprintln!("xtask: {what} took {} s", took.as_secs());
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} failed ({status}); the command was {command:?}")),
        Err(error) => Err(format!("{what}: cannot run {:?}: {error}", command.get_program())),
    }
}

/// Returns the path of a tool from crates.io, such as cargo-mutants. If the tool is not installed,
/// it is built in the target folder.
pub(crate) fn tool(name: &str) -> Result<PathBuf, String> {
    let is_installed = Command::new(name).arg("--version").output();
    if is_installed.is_ok_and(|output| output.status.success()) {
        return Ok(PathBuf::from(name));
    }
    let place = target().join("tools");
    let built = place.join("bin").join(name);
    if !built.is_file() {
        let mut install = cargo(&["install", name, "--locked", "--root"]);
        run(&format!("building {name}"), install.arg(&place))?;
    }
    Ok(built)
}

/// Returns the path of this version of a tool from crates.io, which is built in the target folder.
pub(crate) fn tool_of_version(name: &str, version: &str) -> Result<PathBuf, String> {
    let place = target().join("tools").join(format!("{name}-{version}"));
    let built = place.join("bin").join(name);
    if !built.is_file() {
        let mut install = cargo(&["install", name, "--version", version, "--locked", "--root"]);
        run(&format!("building {name} {version}"), install.arg(&place))?;
    }
    Ok(built)
}

/// The build profile of the gallery, and of the programs whose instructions are counted.
pub(crate) const GALLERY: &str = "gallery";

/// The feature that lets quinn be either endpoint in the lab. Lints, tests and the tested programs
/// enable it, so that nothing is compiled twice. Building the documentation checks that the lab
/// also compiles without it.
pub(crate) const QUINN: &str = "clearway-lab/quinn";

/// Returns a `cargo build` command for these programs. All packages are selected, so that their
/// dependencies have the same features in every build, and nothing is compiled twice.
pub(crate) fn build(profile: &str, programs: &[&str]) -> Command {
    let mut command = cargo(&["build", "--profile", profile, "--workspace"]);
    programs.iter().for_each(|program| {
        command.args(["--bin", program]);
    });
    command
}

/// Builds a program for tests, and returns its path. The workspace's own tests run the same
/// program, so it is already built if they were. It panics on failed debug assertions and integer
/// overflow.
pub(crate) fn tested(program: &str) -> Result<PathBuf, String> {
    let build = ["build", "--workspace", "--features", QUINN, "--bin", program];
    run(&format!("building {program}"), &mut cargo(&build))?;
    Ok(target().join("debug").join(program))
}

/// Builds the program `clearway` with the release profile, and returns its path.
pub(crate) fn program() -> Result<PathBuf, String> {
    run("building clearway", &mut build("release", &["clearway"]))?;
    Ok(target().join("release/clearway"))
}
