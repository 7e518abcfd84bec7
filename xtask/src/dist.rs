//! `cargo xtask dist`: builds the release files in `target/dist-out`.

mod archive;
mod bill;
mod check;
mod checksums;
mod debian;
mod formula;
mod pages;
mod program;

use std::fs;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use serde::Deserialize;

use crate::command::{self, cargo, target};
use program::Program;

/// The targets to build for. Archives for Windows targets are in zip format. The first target runs
/// on this machine, so its program writes the manual pages.
const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "x86_64-pc-windows-gnu"];
/// The target whose binary the Debian package contains.
const OF_DEBIAN: &str = "x86_64-unknown-linux-gnu";
/// The target whose binary Homebrew installs: it is statically linked and does not depend on the C
/// library.
const OF_HOMEBREW: &str = "x86_64-unknown-linux-musl";

#[derive(clap::Args)]
pub(crate) struct DistOptions {
    /// Only this target; may be given several times
    #[arg(long, value_name = "TRIPLE", value_parser = PossibleValuesParser::new(TARGETS))]
    target: Vec<String>,
    /// The build profile; `release` takes a third of the build time
    #[arg(long, value_name = "PROFILE", default_value = "dist")]
    profile: String,
    /// The repository from whose release page Homebrew downloads the archive
    ///
    /// Without it there is no formula.
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// Then test the archives and the Debian package in a chroot
    ///
    /// Makes a Debian chroot without Rust in target/dist-check, and removes it afterwards. Needs
    /// root and a Debian mirror, the one that apt uses or that of the environment variable MIRROR;
    /// installs debootstrap and systemd-container if they are missing.
    #[arg(long)]
    check: bool,
}

/// A release that is being built.
struct Release {
    version: String,
    profile: String,
    /// The folder for the finished files.
    out: PathBuf,
}

/// Builds the release files, and prints their names and sizes.
pub(crate) fn run(options: &DistOptions) -> Result<(), String> {
    let release = Release::begin(options)?;
    let is_chosen =
        |name: &str| options.target.is_empty() || options.target.iter().any(|it| it == name);
    let mut archives = Vec::new();
    for triple in TARGETS.into_iter().filter(|triple| is_chosen(triple)) {
        let program = Program::build(&release, triple)?;
        let pages = pages::write(&program)?;
        archives.push((triple, archive::pack(&release, &program, &pages)?));
        if triple == OF_DEBIAN {
            debian::pack(&release)?;
        }
        if let (OF_HOMEBREW, Some(repository)) = (triple, &options.repository) {
            formula::write(&release, repository)?;
        }
    }
    bill::write(&release)?;
    checksums::write(&release.out)?;
    release.report()?;
    match options.check {
        true => check::run(&release, &archives),
        false => Ok(()),
    }
}

impl Release {
    fn begin(options: &DistOptions) -> Result<Self, String> {
        let out = target().join("dist-out");
        let failed = |error| format!("{}: {error}", out.display());
        match fs::remove_dir_all(&out) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => fs::create_dir_all(&out).map_err(failed)?,
        }
        let version = Metadata::read()?.version_of_program()?;
        Ok(Self { version, profile: options.profile.clone(), out })
    }

    /// Returns the name of a target's archive without the suffix, which is also the name of the
    /// folder in it.
    fn name(&self, triple: &str) -> String {
        format!("clearway-{}-{triple}", self.version)
    }

    fn report(&self) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", self.out.display());
        let mut lines = Vec::new();
        for entry in fs::read_dir(&self.out).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kilobytes = entry.metadata().map_err(failed)?.len().div_ceil(1000);
            lines.push(format!("{kilobytes:>8} kB  {}", entry.file_name().to_string_lossy()));
        }
        lines.sort_by(|a, b| a[11..].cmp(&b[11..]));
        println!("{}\n{}", self.out.display(), lines.join("\n"));
        Ok(())
    }
}

/// The fields of `cargo metadata` that are used here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
}

impl Metadata {
    fn read() -> Result<Self, String> {
        let mut command = cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"]);
        let text = command::output("cargo metadata", &mut command)?;
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
    }

    fn version_of_program(self) -> Result<String, String> {
        let program = self.packages.into_iter().find(|package| package.name == "clearway-cli");
        program
            .map(|package| package.version)
            .ok_or_else(|| "cargo metadata lists no package clearway-cli".to_owned())
    }
}
