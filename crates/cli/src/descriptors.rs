//! The number of descriptors that this process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Permits this process as many descriptors as it may have (the hard limit of RLIMIT_NOFILE). By default it has 1,024, which a
/// server with many clients, open files or readers of its metrics needs.
pub(crate) fn permit_all() {
    let limit = getrlimit(Resource::Nofile);
    // Without them, what takes a descriptor fails when there are too many, and is counted.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
