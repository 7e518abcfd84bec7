use std::path::PathBuf;

use clap::Args;

/// See what happened on a connection, from its qlog file.
///
/// Files of any dialect are read: JSON text sequences and contained JSON, qlog 0.3 and the drafts until 2026, as
/// Clearway, quiche, quic-go, aioquic, quinn and others write them, plain or compressed (.gz, .zst). A file that is
/// truncated or damaged is read up to there, and that is said.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ViewCommand {
    /// The qlog files.
    #[arg(value_name = "FILE", required_unless_present = "catalogue")]
    pub(super) files: Vec<PathBuf>,
    /// Print what is wrong, worst first, and set the exit status: 0 nothing, 1 findings, 2 a file that cannot be
    /// read.
    #[arg(long, required_unless_present = "catalogue")]
    pub(super) findings: bool,
    /// Print all findings that there are, what they mean, what causes them, and from when on.
    #[arg(long)]
    pub(super) catalogue: bool,
    /// Print one JSON object per trace, or per entry of the catalogue, a line each.
    #[arg(long)]
    pub(super) json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  What is wrong with a download that did not come to its end:
    clearway view --findings server.sqlog.gz
  In a script:
    clearway view --findings --json qlog/*.sqlog > findings.json || echo there are some
  What the findings mean:
    clearway view --catalogue";
