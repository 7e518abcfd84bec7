//! The threads of other processes: their names, and their CPU time.

use std::fs;
use std::time::{Duration, Instant};

/// Time limit for a program's threads to set their names.
const NAMING: Duration = Duration::from_secs(5);
/// Maximum length of a thread name in the kernel, in bytes (`TASK_COMM_LEN`, without the
/// terminating byte).
const NAME_LEN: usize = 15;

/// Returns a process's threads with this name, once there are `count`. Each thread sets its own
/// name, possibly after the program has reported that it is ready.
pub(super) fn named(process: u32, name: &str, count: usize) -> Result<Vec<u32>, String> {
    let began = Instant::now();
    loop {
        let threads = all_named(process, name)?;
        if threads.len() == count {
            return Ok(threads);
        }
        if began.elapsed() > NAMING {
            let found = threads.len();
            return Err(format!("a process has {found} threads named {name}, not {count}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn all_named(process: u32, name: &str) -> Result<Vec<u32>, String> {
    let name = name.get(..NAME_LEN).unwrap_or(name);
    let mut threads = all(process)?;
    threads.retain(|thread| {
        let path = format!("/proc/{process}/task/{thread}/comm");
        fs::read_to_string(path).is_ok_and(|found| found.trim() == name)
    });
    Ok(threads)
}

fn all(process: u32) -> Result<Vec<u32>, String> {
    let folder = format!("/proc/{process}/task");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut threads: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?)).collect();
    threads.sort_unstable();
    Ok(threads)
}

/// Returns the CPU seconds that a thread has used so far.
pub(super) fn cpu_seconds(process: u32, thread: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    cpu_seconds_in(&text).ok_or_else(|| format!("{path} has an unexpected format: {text}"))
}

/// Returns the CPU seconds used so far by the current threads of a process, with a higher
/// resolution than `stat`.
pub(super) fn cpu_seconds_of_all(process: u32) -> Result<f64, String> {
    all(process)?.into_iter().map(|thread| cpu_seconds(process, thread)).sum()
}

/// Parses the first field of `schedstat`, which is in nanoseconds.
fn cpu_seconds_in(schedstat: &str) -> Option<f64> {
    let first = schedstat.split_whitespace().next()?;
    Some(first.parse::<f64>().ok()? / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_the_first_field() {
        assert_eq!(cpu_seconds_in("2500000000 12 3\n"), Some(2.5));
        assert_eq!(cpu_seconds_in(""), None);
        // The kernel may count a thread's time only at the next timer interrupt.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while std::time::Instant::now() < deadline {
            if cpu_seconds_of_all(std::process::id()).is_ok_and(|seconds| seconds > 0.0) {
                return;
            }
        }
        panic!("no processor time is counted");
    }

    #[test]
    fn long_names_are_found_by_what_the_kernel_keeps() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let name = "a-name-of-20-letters";
        let builder = std::thread::Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || receiver.recv().is_err()).unwrap();
        assert_eq!(named(std::process::id(), name, 1).map(|found| found.len()), Ok(1));
        drop(sender);
        assert!(thread.join().unwrap());
    }
}
