//! `zig cc`, a C compiler that includes the headers of macOS and FreeBSD.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;

/// The version of the Python package `ziglang`.
const VERSION: &str = "0.17.1";

/// Returns a C compiler and an archiver for `target` in zig's notation: scripts in the target
/// folder. Installs zig if necessary.
pub(super) fn compiler(target: &str) -> Result<[PathBuf; 2], String> {
    let place = command::target().join("tools").join(format!("zig-{VERSION}"));
    let python = install(&place)?;
    let python = python.display();
    // Crates specify the target in Clang's notation, which zig rejects.
    let cc = format!(
        "#!/bin/sh
for argument do
  shift
  case $argument in
    --target=*) ;;
    *) set -- \"$@\" \"$argument\" ;;
  esac
done
exec {python} -m ziglang cc -target {target} \"$@\"
"
    );
    let ar = format!("#!/bin/sh\nexec {python} -m ziglang ar \"$@\"\n");
    let cc = script(&place.join(format!("cc-{target}")), &cc)?;
    Ok([cc, script(&place.join("ar"), &ar)?])
}

/// Installs zig in a Python virtual environment at `place`, unless it is already there. Returns the
/// path of the environment's Python.
fn install(place: &Path) -> Result<PathBuf, String> {
    let python = place.join("bin/python");
    let is_installed = Command::new(&python).args(["-m", "ziglang", "version"]).output();
    if is_installed.is_ok_and(|output| output.status.success()) {
        return Ok(python);
    }
    let mut venv = Command::new("python3");
    command::run("creating an environment for zig", venv.args(["-m", "venv"]).arg(place))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", &format!("ziglang=={VERSION}")]);
    command::run("installing zig", &mut pip)?;
    Ok(python)
}

/// Writes an executable script. An identical script is not rewritten, because a changed compiler
/// would cause everything to be recompiled.
fn script(path: &Path, text: &str) -> Result<PathBuf, String> {
    let failed = |error| format!("{}: {error}", path.display());
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(path.to_owned());
    }
    fs::write(path, text).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(path.to_owned())
}
