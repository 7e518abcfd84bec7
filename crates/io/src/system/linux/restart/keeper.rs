//! The thread of a running process to which the next process connects.

use core::time::Duration;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use super::message::{Conversation, Message, Offer};
use super::pipe::Pipe;
use super::replaceable::{HandOver, Replaceable};

/// Timeout for the first message of a process that connects.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for all shards to stop receiving.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Maximum number of processes that wait for a response.
const BACKLOG: i32 = 16;

/// The unix socket to which other processes connect, and its path.
pub(super) struct SocketPath {
    path: PathBuf,
    listener: OwnedFd,
    /// The device and inode of its file, so that another process's file is not removed.
    file: Option<(u64, u64)>,
    /// Whether this process listens on the socket; if so, it removes the file when it ends.
    is_own: bool,
}

impl SocketPath {
    /// Listens at `path`. An existing socket is left over from a process that has ended, and is
    /// replaced.
    pub(super) fn listen(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|it| !it.file_type().is_socket()) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is not a socket"));
        }
        let flags = SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The socket first has another name, so that only this user can connect when the path
        // appears.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let _ = fs::remove_file(&temporary);
        bind(&listener, &SocketAddrUnix::new(&temporary)?)?;
        let placed = fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))
            .and_then(|()| Ok(listen(&listener, BACKLOG)?))
            .and_then(|()| fs::rename(&temporary, path));
        if let Err(error) = placed {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        let mut here = Self::inherited(path.to_owned(), listener);
        here.own();
        Ok(here)
    }

    /// Wraps the socket of the previous process, which listens on it until it has been replaced.
    pub(super) fn inherited(path: PathBuf, listener: OwnedFd) -> Self {
        let file = file(&path);
        Self { path, listener, file, is_own: false }
    }

    /// Records that this process listens on the socket from now on.
    pub(super) fn own(&mut self) {
        self.is_own = true;
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if self.is_own && self.file.is_some() && self.file == file(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

/// The state that is handed over to the next process.
pub(super) struct Kept {
    pub(super) path: SocketPath,
    pub(super) offer: Offer,
    /// Duplicates of the sockets of all shards.
    pub(super) sockets: Vec<Vec<OwnedFd>>,
    pub(super) shards: Vec<Arc<dyn Replaceable>>,
    /// The connection to the previous process, which ends with that process.
    pub(super) predecessor: Option<Conversation>,
    pub(super) on_replaced: Box<dyn FnOnce() + Send>,
}

/// The thread that waits for the process that replaces this one. The thread ends when this handle
/// is dropped, or when [`halt`](crate::halt) is called.
#[derive(Debug)]
pub struct Keeper {
    /// Channel to the thread; taken when the thread gets its state.
    begin: Option<Sender<Kept>>,
    waiting: Arc<KeeperThread>,
}

/// Handles that are needed to end the thread.
#[derive(Debug)]
struct KeeperThread {
    stop: Arc<OwnedFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl KeeperThread {
    /// Ends the thread, whether or not it already has its state.
    fn end(&self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If this runs on that thread, the thread ends by itself: the callback for a replacement
        // may drop the last handle.
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// The threads that have state to hand over.
static WAITING: Mutex<Vec<Weak<KeeperThread>>> = Mutex::new(Vec::new());

/// Ends the threads of all [`Keeper`]s: no process can replace this one any more, and no socket is
/// left in the file system.
pub(crate) fn end_all() {
    let all = std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner));
    all.iter().filter_map(Weak::upgrade).for_each(|waiting| waiting.end());
}

impl Keeper {
    /// Starts the thread in advance, because it must not fail later.
    pub(super) fn start() -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stopped = stop.clone();
        let (begin, begun) = channel::<Kept>();
        let thread = thread::Builder::new().name("clearway-restart".to_owned());
        let thread = thread.spawn(move || {
            if let Ok(kept) = begun.recv() {
                kept.wait(&stopped);
            }
        })?;
        let waiting = KeeperThread { stop, thread: Mutex::new(Some(thread)) };
        Ok(Self { begin: Some(begin), waiting: Arc::new(waiting) })
    }

    pub(super) fn begin(&mut self, kept: Kept) {
        if let Some(begin) = self.begin.take() {
            // The thread is waiting for this state.
            let _ = begin.send(kept);
            let mut all = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(&self.waiting));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.begin = None;
        self.waiting.end();
    }
}

/// The outcome of a call to `wait`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Stopped,
    First,
    Second,
}

/// Waits until one of the descriptors is ready; `stop` signals the end.
fn wait(
    stop: &OwnedFd,
    first: BorrowedFd<'_>,
    second: Option<BorrowedFd<'_>>,
) -> io::Result<Ready> {
    loop {
        let mut descriptors =
            vec![PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(first, PollFlags::IN)];
        descriptors.extend(second.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)));
        match poll(&mut descriptors, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let mut ready = descriptors.iter().map(|it| !it.revents().is_empty());
        match (ready.next(), ready.next(), ready.next()) {
            (Some(true), ..) => return Ok(Ready::Stopped),
            (_, _, Some(true)) => return Ok(Ready::Second),
            (_, Some(true), _) => return Ok(Ready::First),
            _ => {}
        }
    }
}

/// Waits for [`PAUSE`], or until `stop` signals the end.
fn pause(stop: &OwnedFd) -> io::Result<()> {
    match poll(&mut [PollFd::new(stop, PollFlags::IN)], Some(&PAUSE)) {
        Err(Errno::INTR) | Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Kept {
    /// Responds to processes that connect, until one has replaced this one.
    fn wait(mut self, stop: &OwnedFd) {
        loop {
            let predecessor = self.predecessor.as_ref().map(AsFd::as_fd);
            match wait(stop, self.path.listener.as_fd(), predecessor) {
                Ok(Ready::Stopped) => break,
                // The previous process sends nothing: readiness means that it has ended.
                Ok(Ready::Second) => {
                    tracing::info!("the previous process has ended");
                    self.predecessor = None;
                }
                Ok(Ready::First) => match self.answer(stop) {
                    Ok(true) => {
                        self.path.is_own = false;
                        return (self.on_replaced)();
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "another process failed to replace this one")
                    }
                },
                Err(error) => {
                    tracing::error!(%error, "this process cannot be replaced");
                    break;
                }
            }
        }
    }

    /// Responds to one process. Returns whether it has replaced this one.
    fn answer(&mut self, stop: &OwnedFd) -> io::Result<bool> {
        let socket = match accept_with(&self.path.listener, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            // For example, there are no descriptors. The listener remains ready.
            Err(error) => {
                pause(stop)?;
                return Err(error.into());
            }
        };
        let conversation = Conversation::new(socket, HELLO_PATIENCE)?;
        let user = conversation.user()?;
        if user != rustix::process::geteuid().as_raw() {
            tracing::warn!(
                user,
                "rejecting a request for the sockets from a process of another user"
            );
            return Ok(false);
        }
        match conversation.receive()?.0 {
            Message::HELLO => {}
            Message::Hello(_) => {
                conversation.send(Message::OTHER_VERSION, &[])?;
                return Ok(false);
            }
            _ => return Ok(false),
        }
        if self.predecessor.is_some() {
            conversation.send(Message::Draining, &[])?;
            return Ok(false);
        }
        let pipes = self.offer(&conversation)?;
        // The new process may take a long time, or end before it is ready.
        if wait(stop, conversation.as_fd(), None)? == Ready::Stopped {
            return Ok(false);
        }
        match conversation.receive() {
            Ok((Message::Ready, _)) => {}
            Ok(_) | Err(_) => return Ok(false),
        }
        let conversation = Arc::new(conversation);
        let is_replaced = self.stop_receiving(pipes, &conversation)
            && conversation.send(Message::Go, &[]).is_ok();
        if !is_replaced {
            self.receive_again();
            // A process that has ended needs no response.
            let _ = conversation.send(Message::Stay, &[]);
        }
        Ok(is_replaced)
    }

    /// Hands over the sockets and the other state. Returns this process's ends of the pipes.
    fn offer(&self, conversation: &Conversation) -> io::Result<Vec<OwnedFd>> {
        conversation.send(Message::Offer(self.offer), &[self.path.listener.as_fd()])?;
        let mut pipes = Vec::new();
        for sockets in &self.sockets {
            let (ours, theirs) = Pipe::pair()?;
            let descriptors = sockets.iter().chain([&theirs]).map(AsFd::as_fd);
            conversation.send(Message::Shard, &descriptors.collect::<Vec<_>>())?;
            pipes.push(ours);
        }
        Ok(pipes)
    }

    /// Makes all shards stop receiving from the UDP sockets. Returns whether all have stopped.
    fn stop_receiving(&self, pipes: Vec<OwnedFd>, lasting: &Arc<Conversation>) -> bool {
        let (stopped, all_stopped) = channel::<()>();
        for (shard, pipe) in self.shards.iter().zip(pipes) {
            let (stopped, lasting) = (stopped.clone(), lasting.clone());
            let hand_over = HandOver { pipe: Pipe::new(pipe), stopped, lasting };
            shard.hand_over(hand_over);
        }
        drop(stopped);
        // The shards send nothing; they drop their senders.
        all_stopped.recv_timeout(STOP_PATIENCE) == Err(RecvTimeoutError::Disconnected)
    }

    fn receive_again(&self) {
        self.shards.iter().for_each(|shard| shard.listen());
    }
}
