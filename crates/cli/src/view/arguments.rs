use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::live::Origin;

/// Show what happened on a connection, from its qlog file.
///
/// Opens a page in the browser with graphs, states, packets and findings. The program serves the
/// page until it is interrupted (Ctrl-C). With --html, the page is written to a file instead, which
/// needs neither this program nor a network.
///
/// Any qlog file can be read: JSON text sequences and contained JSON, all versions from 0.1 to the
/// drafts of 2026, as written by Clearway, quiche, quic-go, aioquic, quinn, picoquic and other
/// stacks, plain or compressed (.gz, .zst). A truncated or damaged file is read up to the damage,
/// and the damage is reported.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ViewCommand {
    /// The qlog files. The page can overlay one trace on another.
    #[arg(value_name = "FILE", required_unless_present_any = ["catalogue", "live"])]
    pub(super) files: Vec<PathBuf>,
    /// Print the findings instead, worst first.
    ///
    /// Exit status: 0 without findings, 1 with findings, 2 if a file could not be read.
    #[arg(long, conflicts_with_all = ["html", "live", "listen", "no_open"])]
    pub(super) findings: bool,
    /// List all kinds of findings, with their meaning, causes and thresholds.
    #[arg(long, conflicts_with_all = ["files", "findings", "html", "live", "listen", "no_open"])]
    pub(super) catalogue: bool,
    /// Print one JSON object per line: per trace (--findings), or per finding.
    ///
    /// --json implies --findings, except with --catalogue, where each object is a finding.
    #[arg(long, conflicts_with_all = ["html", "live", "listen", "no_open"])]
    pub(super) json: bool,
    /// Write the page and the traces to this file instead of serving them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["live", "listen", "no_open"])]
    pub(super) html: Option<PathBuf>,
    /// Follow connections of a server with --live ADDR; ADDR/NAME selects one.
    #[arg(long, value_name = "ADDR", conflicts_with = "files")]
    pub(super) live: Option<Origin>,
    /// The address to serve the page at; port 0 selects any free port.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    pub(super) listen: SocketAddr,
    /// Also accept this host name in requests for the page. May be repeated.
    ///
    /// Without this option, only IP addresses and localhost are accepted.
    #[arg(long = "name", value_name = "NAME", conflicts_with_all = ["html", "findings", "catalogue"])]
    pub(super) names: Vec<String>,
    /// Do not open a browser.
    #[arg(long)]
    pub(super) no_open: bool,
}

const AFTER_HELP: &str = "\
Examples:
  Compare two downloads:
    clearway demo --qlog runs
    clearway view runs/cubic-1.sqlog runs/bbr-1.sqlog
  Write a page to send to someone else:
    clearway view --html slow.html server.sqlog.gz
  Watch a congestion collapse as it happens:
    clearway view --live 127.0.0.1:4480 &
    clearway demo --live 127.0.0.1:4480
  Find out why a download did not finish:
    clearway view --findings server.sqlog.gz
  In a script:
    clearway view --findings --json qlog/*.sqlog > findings.json || echo \"findings or errors\"
  Explain all findings:
    clearway view --catalogue";
