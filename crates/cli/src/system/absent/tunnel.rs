//! `clearway tunnel` on systems other than Linux: it only reports that it requires Linux.

use std::ffi::OsString;

use clap::Args;

use crate::failure::Failure;

/// Send this host's IP packets through a proxy; only on Linux.
#[derive(Args, Debug)]
pub(crate) struct TunnelCommand {
    /// The arguments, which are not parsed.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Returns an error that says that the command requires Linux.
pub(crate) async fn run(_: TunnelCommand) -> Result<(), Failure> {
    let what = "cannot open an IP tunnel on this system: it requires Linux";
    Err(Failure::new(what).advise("use clearway get --proxy for single downloads"))
}
