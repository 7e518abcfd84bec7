//! `clearway balance` on systems other than Linux: it only reports that it requires Linux.

use std::ffi::OsString;

use clap::Args;

use crate::failure::Failure;

/// Balance QUIC connections across servers; only on Linux.
#[derive(Args, Debug)]
pub(crate) struct BalanceCommand {
    /// The arguments, which are not parsed.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Returns an error that says that the command requires Linux.
pub(crate) async fn run(_: BalanceCommand) -> Result<(), Failure> {
    let what = "cannot run the load balancer on this system: it requires Linux, which distributes \
                datagrams among several sockets of a port";
    Err(Failure::new(what)
        .advise("run the balancer on Linux; the servers behind it can run on any system"))
}
