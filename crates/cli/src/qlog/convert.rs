//! `clearway qlog convert`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clearway_qlog::convert::{Conversion, ConvertError, to_0_3};

use crate::failure::Failure;
use crate::output;
use crate::whole_file::{WholeFile, unwritten};

/// The exit status for a file that cannot be read.
const UNREADABLE: u8 = 2;

/// Convert a qlog file of any version to another version.
///
/// qvis reads version 0.3, and rejects files of the current drafts. Events that the version does
/// not define are left out; their number is printed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ConvertCommand {
    /// The version to convert to.
    #[arg(long, value_name = "VERSION")]
    to: Version,
    /// The qlog file: JSON or JSON text sequence, plain, .gz or .zst.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Version {
    #[value(name = "0.3")]
    ZeroThree,
}

const AFTER_HELP: &str = "\
Example:
  clearway qlog convert --to 0.3 server.sqlog.gz -o for-qvis.sqlog";

/// Runs the command.
pub(super) fn run(command: &ConvertCommand) -> Result<(), Failure> {
    let Version::ZeroThree = command.to;
    let conversion = match &command.output {
        None => write(&command.input, &mut io::stdout().lock(), |error| {
            Failure::new(format!("cannot write to standard output: {error}"))
        })?,
        Some(path) => {
            if is_same_file(&command.input, path) {
                let what =
                    format!("cannot convert {}: the output file is the input file", path.display());
                return Err(Failure::new(what).advise("choose another file with -o"));
            }
            write_file(&command.input, path)?
        }
    };
    report(&command.input, &conversion);
    Ok(())
}

fn write_file(input: &Path, path: &Path) -> Result<Conversion, Failure> {
    let failed = |error: io::Error| unwritten(path, &error, "-o");
    let mut file = WholeFile::create(path).map_err(failed)?;
    let conversion = write(input, &mut file, failed)?;
    file.finish().map_err(failed)?;
    Ok(conversion)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn write(
    input: &Path,
    output: &mut dyn Write,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<Conversion, Failure> {
    to_0_3(input, output).map_err(|error| match error {
        ConvertError::Open(error) => {
            Failure::new(format!("cannot convert {}: {error}", input.display()))
                .advise("the input must be a qlog file, plain, .gz or .zst")
                .with_exit_status(UNREADABLE)
        }
        ConvertError::Write(error) => failed(error),
        error => Failure::new(format!("cannot convert {}: {error}", input.display()))
            .advise("run `clearway view` to see what was read")
            .with_exit_status(UNREADABLE),
    })
}

/// Prints a summary of a conversion.
fn report(input: &Path, conversion: &Conversion) {
    let name = input.display();
    let left_out: u64 = conversion.reading.unused.values().sum();
    let mut line = format!("{name}: {} events written", conversion.written);
    if left_out > 0 {
        line.push_str(&format!(", {left_out} left out because version 0.3 does not define them"));
    }
    if conversion.has_more_traces {
        line.push_str("; the file has several traces, of which only the first was converted");
    }
    if let Some(damage) = &conversion.reading.damage {
        line.push_str(&format!("; it is damaged ({damage}) and was converted up to the damage"));
    }
    output::status(&line);
}
