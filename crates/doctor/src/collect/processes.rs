//! The processes that own sockets, and what their threads do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cgroups::Cgroups;
use super::files::{self, Files, Malformed};
use crate::snapshot::{Missing, Process, Reading, RunState, Socket, SocketKey, Thread};

/// Maximum number of processes per snapshot, and maximum number of threads per process.
const MAX_PROCESSES: usize = 256;
const MAX_THREADS: usize = 64;
/// Maximum number of file descriptors that one search for socket owners checks.
const MAX_DESCRIPTORS: usize = 1 << 20;
/// A search for owners may take 1/`SEARCH_SHARE` of the time, because it checks every file
/// descriptor on the host.
const SEARCH_SHARE: u32 = 400;
/// An inode without an owner is searched for again after this time, and the time doubles with each
/// search, up to the maximum below.
const SEARCH_AGAIN: Duration = Duration::from_secs(1);
const SEARCH_LATEST: Duration = Duration::from_secs(300);

/// Known owners of sockets.
#[derive(Debug)]
pub(super) struct Owners {
    /// The only process to check; `None` to check all processes.
    only: Option<u32>,
    /// The owners of each inode.
    of: BTreeMap<u64, Vec<u32>>,
    /// The start time of each process that owns a socket.
    started: BTreeMap<u32, u64>,
    /// Inodes without known owners: when to search for each of them again, and the current
    /// interval.
    unknown: BTreeMap<u64, (Instant, Duration)>,
    /// No search for owners begins before this time.
    next_search: Option<Instant>,
    /// Number of processes that the last search was not permitted to check.
    hidden: usize,
    cgroups: Cgroups,
}

impl Owners {
    /// With `only`, the owners of other processes' sockets stay unknown.
    pub(super) fn new(only: Option<u32>, files: &Files) -> Self {
        Self {
            only,
            of: BTreeMap::new(),
            started: BTreeMap::new(),
            unknown: BTreeMap::new(),
            next_search: None,
            hidden: 0,
            cgroups: Cgroups::of(files),
        }
    }

    /// Fills in the owners of these sockets, and returns the processes that own them.
    pub(super) fn enter(
        &mut self,
        sockets: &mut BTreeMap<SocketKey, Socket>,
        files: &Files,
    ) -> Reading<BTreeMap<u32, Process>> {
        self.forget(sockets, files);
        let now = Instant::now();
        let inodes = sockets.values().map(|socket| socket.inode).filter(|inode| *inode != 0);
        let wanted: BTreeSet<u64> = inodes.filter(|inode| self.is_due(*inode, now)).collect();
        if !wanted.is_empty() && self.next_search.is_none_or(|next| next <= now) {
            self.search(&wanted, files);
            let pause = now.elapsed().saturating_mul(SEARCH_SHARE);
            self.next_search = Instant::now().checked_add(pause);
        }
        let mut found = BTreeSet::new();
        let mut has_strangers = false;
        for socket in sockets.values_mut() {
            match self.of.get(&socket.inode) {
                Some(owners) => {
                    socket.owners.clone_from(owners);
                    found.extend(owners);
                }
                None => has_strangers |= socket.inode != 0,
            }
        }
        if found.is_empty() && has_strangers && self.hidden > 0 {
            let right = "CAP_SYS_PTRACE, to see the sockets of other users' processes";
            return Reading::Missing(Missing::Right(right.to_owned()));
        }
        let processes = found.into_iter().take(MAX_PROCESSES);
        let processes = processes.filter_map(|id| Some((id, self.process(id, files)?)));
        Reading::Seen(processes.collect())
    }

    /// Forgets sockets that were closed and processes that have ended.
    fn forget(&mut self, sockets: &BTreeMap<SocketKey, Socket>, files: &Files) {
        let inodes: BTreeSet<u64> = sockets.values().map(|socket| socket.inode).collect();
        self.of.retain(|inode, _| inodes.contains(inode));
        self.unknown.retain(|inode, _| inodes.contains(inode));
        let has_ended = |(id, started): (&u32, &u64)| {
            (stat(files, *id).map(|stat| stat.started) != Some(*started)).then_some(*id)
        };
        let ended: BTreeSet<u32> = self.started.iter().filter_map(has_ended).collect();
        if !ended.is_empty() {
            self.started.retain(|id, _| !ended.contains(id));
            for owners in self.of.values_mut() {
                owners.retain(|id| !ended.contains(id));
            }
            self.of.retain(|_, owners| !owners.is_empty());
        }
    }

    fn is_due(&self, inode: u64, now: Instant) -> bool {
        let is_late = |(due, _): &(Instant, Duration)| *due <= now;
        !self.of.contains_key(&inode) && self.unknown.get(&inode).is_none_or(is_late)
    }

    /// Searches the file descriptors of every process for these inodes.
    fn search(&mut self, wanted: &BTreeSet<u64>, files: &Files) {
        let mut left = MAX_DESCRIPTORS;
        self.hidden = 0;
        let processes = match self.only {
            Some(id) => vec![id],
            None => numbers(&files.proc("")).unwrap_or_default(),
        };
        for id in processes {
            let Some(stat) = stat(files, id) else { continue };
            let Ok(descriptors) = fs::read_dir(files.proc(format!("{id}/fd"))) else {
                self.hidden = self.hidden.saturating_add(1);
                continue;
            };
            for descriptor in descriptors.flatten() {
                left = left.saturating_sub(1);
                let target = fs::read_link(descriptor.path()).ok();
                let inode = target.as_deref().and_then(socket_inode);
                let Some(inode) = inode.filter(|inode| wanted.contains(inode)) else { continue };
                let owners = self.of.entry(inode).or_default();
                if owners.last() != Some(&id) {
                    owners.push(id);
                }
                self.started.insert(id, stat.started);
            }
            if left == 0 {
                break;
            }
        }
        let now = Instant::now();
        for inode in wanted {
            if self.of.contains_key(inode) {
                self.unknown.remove(inode);
                continue;
            }
            let wait = match self.unknown.get(inode) {
                Some((_, wait)) => wait.saturating_mul(2).min(SEARCH_LATEST),
                None => SEARCH_AGAIN,
            };
            let due = now.checked_add(wait).unwrap_or(now);
            self.unknown.insert(*inode, (due, wait));
        }
    }

    /// Returns the state of a process, if it has not ended.
    fn process(&mut self, id: u32, files: &Files) -> Option<Process> {
        let stat = stat(files, id)?;
        let tasks = files.proc(format!("{id}/task"));
        let mut threads = numbers(&tasks)?;
        threads.sort_unstable();
        threads.truncate(MAX_THREADS);
        let thread = |thread: u32| {
            let folder = tasks.join(thread.to_string());
            let stat = parse_stat(&files::read(&folder.join("stat")).ok()?).ok()?;
            // Without `schedstat`, waiting times are unknown; a 0 would mean that the thread never
            // waited.
            let times = files::read(&folder.join("schedstat")).ok()?;
            let [ran, waited, slices] = super::text::three(&times).ok()?;
            Some((thread, Thread { name: stat.name, state: stat.state, ran, waited, slices }))
        };
        Some(Process {
            name: stat.name,
            started: stat.started,
            threads: threads.into_iter().filter_map(thread).collect(),
            throttling: self.cgroups.throttling(id, files),
        })
    }
}

/// Returns the inode from the link target of a socket's descriptor, such as `socket:[1234]`.
fn socket_inode(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the entries of a directory whose names are numbers.
fn numbers(folder: &Path) -> Option<Vec<u32>> {
    let names = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name());
    Some(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// The relevant fields of `/proc/PID/stat`.
#[derive(PartialEq, Eq, Debug)]
struct Stat {
    name: String,
    state: RunState,
    started: u64,
}

fn stat(files: &Files, id: u32) -> Option<Stat> {
    parse_stat(&files::read(&files.proc(format!("{id}/stat"))).ok()?).ok()
}

/// The process's name is in parentheses, and may itself contain parentheses and spaces.
fn parse_stat(text: &str) -> Result<Stat, Malformed> {
    let parse = || {
        let (_, rest) = text.split_once('(')?;
        let (name, rest) = rest.rsplit_once(')')?;
        let mut words = rest.split_whitespace();
        let state = match words.next()? {
            "R" => RunState::Runnable,
            "D" => RunState::Blocked,
            "T" | "t" => RunState::Stopped,
            "Z" | "X" | "x" => RunState::Ended,
            _ => RunState::Sleeping,
        };
        // The start time is the 22nd field, and the state is the third.
        let started = words.nth(18)?.parse().ok()?;
        Some(Stat { name: name.to_owned(), state, started })
    };
    parse().ok_or_else(|| Malformed::of(text))
}

#[cfg(test)]
#[path = "processes_tests.rs"]
mod tests;
