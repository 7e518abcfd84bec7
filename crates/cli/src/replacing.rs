//! Replacement of one process of this program by another.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clearway::{HotRestart, HotRestartError};

use crate::failure::Failure;
use crate::output;

/// Interval at which a process that waits to replace another one checks whether it can continue.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which a process reports that it is still waiting to replace another one.
const PROGRESS: Duration = Duration::from_secs(10);

/// Function that looks for a process to replace.
type Looking = fn(PathBuf) -> Result<HotRestart, HotRestartError>;

/// Looks for a process to replace at the path of its unix socket, and waits until it can be replaced.
pub(crate) async fn look_for(path: &Path, looking: Looking) -> Result<HotRestart, Failure> {
    let begun = Instant::now();
    let mut said: Option<Instant> = None;
    loop {
        let at = path.to_owned();
        let found = tokio::task::spawn_blocking(move || looking(at)).await;
        match found {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error @ HotRestartError::Draining)) => {
                if said.is_none_or(|said| said.elapsed() >= PROGRESS) {
                    let seconds = begun.elapsed().as_secs();
                    output::status(&format!("{error}; waiting for it to exit ({seconds} s)"));
                    said = Some(Instant::now());
                }
                tokio::time::sleep(INTERVAL).await;
            }
            Ok(Err(error)) => return Err(not_replaced(&error)),
            Err(error) => return Err(Failure::new(format!("cannot start threads: {error}"))),
        }
    }
}

/// Returns the failure of a process that cannot replace another one.
pub(crate) fn not_replaced(error: &HotRestartError) -> Failure {
    let failure = Failure::new(format!("cannot take over: {error}"));
    match error {
        HotRestartError::ShardCount { running, .. } => {
            failure.advise(format!("use --shards {running}, or stop the running process first"))
        }
        HotRestartError::Addresses { .. } => failure.advise(
            "use the same --listen and --preferred-address as the running process, or stop it first",
        ),
        HotRestartError::ConnectionIds { .. } => failure.advise(
            "use a --quic-lb file with IDs of the same length (none if the running process has none), \
             or stop the running process first",
        ),
        HotRestartError::TooManyShards { limit } => {
            failure.advise(format!("use --shards {limit} or less"))
        }
        HotRestartError::OtherUser { .. } => {
            failure.advise("start this program as that user, or choose another --hot-restart socket")
        }
        HotRestartError::Foreign => {
            failure.advise("stop the running process first; the next restart can be hot again")
        }
        HotRestartError::Busy | HotRestartError::Ended => {
            failure.advise("start this program again")
        }
        HotRestartError::Path { error, .. } if error.kind() == ErrorKind::Unsupported => {
            failure.advise("omit --hot-restart, and stop the running process first")
        }
        HotRestartError::Path { .. } => {
            failure.advise("choose an existing folder that only this user can write to")
        }
        _ => failure,
    }
}
