//! Hot restart of threads that are not shards, such as those of a load balancer.
//!
//! A shard keeps its connections when another process replaces its own, and only its listening
//! sockets are handed over. Other threads hand over their complete state, so that their process can
//! end immediately: additional sockets, and serialized state in their own format. Datagrams that
//! arrive in the meantime wait in the sockets, which both processes have.
//!
//! A starting process calls [`inherit`] and [`prepare`], and [`take_over`](Prepared::take_over)
//! when its threads have started. The threads wait until [`listen`](Replaceable::listen) is called,
//! and [receive](Predecessor::receive) the state of their predecessors. When the next process
//! connects, [`hand_over`](Replaceable::hand_over) is called, and each thread [passes
//! on](HandOver::give) its state.

use core::net::SocketAddr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::message::Message;
use super::replaceable::conversation;
use super::{HotRestart, HotRestartError, InheritedGroup, InheritedShard, is_same};
use crate::shard_ids::Layout;

pub use super::Prepared;
pub use super::keeper::Keeper;
pub use super::replaceable::{HandOver, Lasting, Replaceable};

/// The handover from the same thread of the previous process.
#[derive(Debug)]
pub struct Predecessor(OwnedFd);

impl Predecessor {
    /// Waits for the handover. Returns the sockets and the state that were [passed
    /// on](HandOver::give).
    ///
    /// This may block for several seconds.
    ///
    /// # Errors
    /// Returns [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the predecessor ends before it has
    /// handed over anything, [`WouldBlock`](ErrorKind::WouldBlock) if nothing arrives in time,
    /// [`InvalidData`](ErrorKind::InvalidData) if the format is wrong, and other errors of the
    /// operating system.
    pub fn receive(self) -> io::Result<(Vec<UdpSocket>, Vec<u8>)> {
        let conversation = conversation(self.0)?;
        let foreign = || io::Error::from(ErrorKind::InvalidData);
        let (Message::State(count), memory) = conversation.receive()? else {
            return Err(foreign());
        };
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            match conversation.receive()? {
                (Message::Ports, some) if !some.is_empty() => {
                    sockets.extend(some.into_iter().map(UdpSocket::from));
                }
                _ => return Err(foreign()),
            }
        }
        let mut memory = File::from(memory.into_iter().next().ok_or_else(foreign)?);
        let mut bytes = Vec::new();
        memory.rewind()?;
        memory.read_to_end(&mut bytes)?;
        Ok((sockets, bytes))
    }
}

/// Returns the listening socket of each thread of the process to replace, and the thread's
/// handover; `None` if there is no such process. `listen` and `threads` are the requested values.
///
/// # Errors
/// Fails with [`HotRestartError::ShardCount`] or [`HotRestartError::Addresses`] as the cause if the
/// running process has different values. Also returns other errors of the operating system.
pub fn inherit(
    hot_restart: &mut HotRestart,
    listen: SocketAddr,
    threads: usize,
) -> io::Result<Option<Vec<(UdpSocket, Predecessor)>>> {
    let Some(InheritedGroup { shards, .. }) = hot_restart.take_inherited() else { return Ok(None) };
    let (running, asked) = (shards.len(), threads);
    if running != asked {
        return Err(HotRestartError::ShardCount { running, asked }.into());
    }
    let inherited = shards.into_iter().map(|InheritedShard { sockets, pipe }| {
        let socket = sockets.into_iter().next().ok_or(ErrorKind::NotConnected)?;
        let running = socket.local_addr()?;
        if !is_same(running, listen) {
            let (running, asked) = (vec![running], vec![listen]);
            return Err(HotRestartError::Addresses { running, asked }.into());
        }
        Ok((socket, Predecessor(pipe)))
    });
    inherited.collect::<io::Result<_>>().map(Some)
}

/// Performs all steps of the handover that may fail. Each thread is passed with a duplicate of its
/// listening socket. If there is no process to replace, the next process can connect from here on.
///
/// # Errors
/// Fails if the path of the unix socket cannot be used, with a [`HotRestartError`] as the cause.
/// Also returns other errors of the operating system.
pub fn prepare(
    hot_restart: HotRestart,
    threads: Vec<(OwnedFd, Arc<dyn Replaceable>)>,
) -> io::Result<Prepared> {
    let (sockets, threads) =
        threads.into_iter().map(|(socket, thread)| (vec![socket], thread)).unzip();
    hot_restart.prepare(sockets, threads, None, Layout::OWN)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::message::MAX_DESCRIPTORS;
    use super::super::pipe::Pipe;
    use super::super::replaceable::give;
    use super::*;

    #[test]
    fn what_is_given_is_received() {
        let (ours, theirs) = Pipe::pair().unwrap();
        let sockets: Vec<_> =
            (0..3 * MAX_DESCRIPTORS / 2).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let expected: Vec<_> = sockets.iter().map(|it| it.local_addr().unwrap()).collect();
        let (received, bytes) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| Predecessor(theirs).receive().unwrap());
            let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            give(ours, &sockets, &[b"what is ", b"remembered"]).unwrap();
            receiving.join().unwrap()
        });
        let received: Vec<_> = received.iter().map(|it| it.local_addr().unwrap()).collect();
        assert_eq!((received, &bytes[..]), (expected, &b"what is remembered"[..]));
    }

    #[test]
    fn an_end_before_that_is_an_error() {
        let (ours, theirs) = Pipe::pair().unwrap();
        drop(ours);
        assert!(Predecessor(theirs).receive().is_err());
    }
}
