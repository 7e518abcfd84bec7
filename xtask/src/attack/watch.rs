//! The costs that an attack causes for its target: memory, CPU time, file descriptors and disk
//! space.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::measure::cpu_seconds;

/// The pause between two samples.
const POLLING: Duration = Duration::from_millis(25);

/// Resources used by a process: the maximum or the total, depending on the resource.
#[derive(Default, Clone, Copy)]
pub(super) struct Cost {
    /// Growth of resident memory in bytes.
    pub(super) memory: u64,
    /// CPU time in seconds.
    pub(super) cpu: f64,
    /// Growth in the number of file descriptors.
    pub(super) descriptors: u64,
    /// Growth of the folder's size in bytes.
    pub(super) disk: u64,
}

/// Measures a process until stopped.
pub(super) struct Watch {
    process: u32,
    folder: PathBuf,
    before: Cost,
    peak: Arc<Mutex<Cost>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(process: u32, folder: &Path) -> Self {
        let before = now(process, folder);
        let peak = Arc::new(Mutex::new(before));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, flag, path) = (peak.clone(), stop.clone(), folder.to_owned());
        let thread = std::thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                raise(&shared, now(process, &path));
                std::thread::sleep(POLLING);
            }
        });
        Self { process, folder: folder.to_owned(), before, peak, stop, thread: Some(thread) }
    }

    pub(super) fn stop(mut self) -> Cost {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        raise(&self.peak, now(self.process, &self.folder));
        let peak = self.peak.lock().map_or_else(|error| *error.into_inner(), |peak| *peak);
        Cost {
            memory: peak.memory.saturating_sub(self.before.memory),
            cpu: peak.cpu - self.before.cpu,
            descriptors: peak.descriptors.saturating_sub(self.before.descriptors),
            disk: peak.disk.saturating_sub(self.before.disk),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn raise(peak: &Mutex<Cost>, seen: Cost) {
    if let Ok(mut peak) = peak.lock() {
        peak.memory = peak.memory.max(seen.memory);
        peak.cpu = peak.cpu.max(seen.cpu);
        peak.descriptors = peak.descriptors.max(seen.descriptors);
        peak.disk = peak.disk.max(seen.disk);
    }
}

/// Returns the current resource use of a process; zeros if it has exited.
fn now(process: u32, folder: &Path) -> Cost {
    Cost {
        memory: resident(process),
        cpu: cpu_seconds(process).unwrap_or_default(),
        descriptors: fs::read_dir(format!("/proc/{process}/fd"))
            .map_or(0, |all| all.count() as u64),
        disk: disk(folder),
    }
}

/// Returns the resident memory of a process in bytes.
pub(super) fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Returns the total size of the files in a folder, including its subfolders.
fn disk(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
