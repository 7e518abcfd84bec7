use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::live::Origin;

/// See what happened on a connection, from its qlog file.
///
/// A page with curves, states, packets and what is wrong opens in the browser; it is served by this program, which runs
/// until it is interrupted (Ctrl-C). With --html it is written to a file that needs neither this program nor a network.
///
/// Files of any dialect are read: JSON text sequences and contained JSON, qlog 0.3 and the drafts until 2026, as
/// Clearway, quiche, quic-go, aioquic, quinn and others write them, plain or compressed (.gz, .zst). A file that is
/// truncated or damaged is read up to there, and that is said.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ViewCommand {
    /// The qlog files; on the page, one may be laid over another.
    #[arg(value_name = "FILE", required_unless_present_any = ["catalogue", "live"])]
    pub(super) files: Vec<PathBuf>,
    /// Print what is wrong instead, worst first, and set the exit status: 0 nothing, 1 findings, 2 a file that cannot
    /// be read.
    #[arg(long, conflicts_with_all = ["html", "live", "listen", "no_open"])]
    pub(super) findings: bool,
    /// Print all findings that there are, what they mean, what causes them, and from when on.
    #[arg(long, conflicts_with_all = ["files", "findings", "html", "live", "listen", "no_open"])]
    pub(super) catalogue: bool,
    /// With --findings or --catalogue: print one JSON object per trace, or per entry of the catalogue, a line each.
    #[arg(long, conflicts_with_all = ["html", "live", "listen", "no_open"])]
    pub(super) json: bool,
    /// Write the page, with the traces in it, to this file instead.
    #[arg(long, value_name = "OUT", conflicts_with_all = ["live", "listen", "no_open"])]
    pub(super) html: Option<PathBuf>,
    /// Follow the connections of a server that runs with --live ADDRESS, as they go; ADDRESS/NAME for one of them.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "files")]
    pub(super) live: Option<Origin>,
    /// Where to serve the page; port 0 takes any.
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    pub(super) listen: SocketAddr,
    /// Answer those who ask for the page by this name of the machine, too, and not only by its address. May be given
    /// several times.
    #[arg(long = "name", value_name = "NAME", conflicts_with_all = ["html", "findings", "catalogue"])]
    pub(super) names: Vec<String>,
    /// Do not open a browser.
    #[arg(long)]
    pub(super) no_open: bool,
}

const AFTER_HELP: &str = "\
Examples:
  Look at a download, and at another laid over it:
    clearway view target/demo/cubic-1.sqlog target/demo/bbr-1.sqlog
  A page to send to somebody:
    clearway view --html slow.html server.sqlog.gz
  Watch a congestion collapse as it happens:
    clearway view --live 127.0.0.1:4480 &
    clearway demo --live 127.0.0.1:4480
  What is wrong with a download that did not come to its end:
    clearway view --findings server.sqlog.gz
  In a script:
    clearway view --findings --json qlog/*.sqlog > findings.json || echo there are some
  What the findings mean:
    clearway view --catalogue";
