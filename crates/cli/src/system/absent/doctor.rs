//! `clearway doctor` on systems other than Linux: it only reports that it requires Linux. Servers
//! do not run `doctor`'s checks either.

use std::ffi::OsString;
use std::fmt;

use clap::Args;
use clearway_doctor::Application;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::failure::Failure;

/// The exit status of `clearway doctor` if it cannot examine the host.
pub(crate) const FAILED: u8 = 3;

/// Report where this host loses datagrams, and why; only on Linux.
#[derive(Args, Debug)]
pub(crate) struct DoctorCommand {
    /// The arguments, which are not parsed.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Returns an error that says that the command requires Linux.
pub(crate) async fn run(_: DoctorCommand) -> Result<(), Failure> {
    let what = "cannot examine this host: the doctor reads the counters of the Linux kernel";
    Err(Failure::new(what)
        .advise("run it on a Linux host; for a server, --metrics exports its own counters")
        .with_exit_status(FAILED))
}

/// A placeholder for `doctor`'s checks inside a server: it examines nothing, and has no metrics.
#[derive(Clone, Debug)]
pub(crate) struct Carried;

impl Carried {
    /// Ignores the program's own counters.
    ///
    /// # Errors
    ///
    /// Never returns an error.
    pub(crate) fn start(_: impl Fn() -> Application + Send + 'static) -> Result<Self, Failure> {
        Ok(Self)
    }
}

impl Collector for Carried {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}
