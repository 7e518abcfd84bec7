//! The limit of file descriptors of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's descriptor limit to its maximum (the hard limit of RLIMIT_NOFILE). The
/// default is 1,024, and a server needs more for many clients, open files or readers of its
/// metrics.
pub(crate) fn permit_all() {
    let limit = getrlimit(Resource::Nofile);
    // Otherwise, operations that need a descriptor fail when there are too many, and are counted.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
