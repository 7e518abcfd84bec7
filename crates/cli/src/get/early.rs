//! Requests that are made while connecting, so that the first flight carries them as early data.
//!
//! On a busy machine, a task in the program's runtime is woken long after the connection has become
//! ready for requests. Therefore, a task on the shard's thread creates the connection and makes
//! these requests in the same turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use clearway::http3::{Client, Error, Priority, RecvBody};
use clearway::{Connection, RecvStream};
use http::Response;
use tokio::sync::oneshot;

use super::protocol::{AskError, ask, request};
use super::target::Target;

/// The responses to early requests over one protocol. Each can be taken once.
#[derive(Debug)]
pub(super) struct Answers<T>(Mutex<BTreeMap<String, VecDeque<oneshot::Receiver<T>>>>);

/// The response to an HTTP/3 request.
pub(super) type Http3Answer = Result<Response<RecvBody>, Error>;
/// The response stream of an HTTP/0.9 request.
pub(super) type Http09Answer = Result<RecvStream, AskError>;

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Answers<T> {
    /// Takes the response for this URL, if it was requested early.
    pub(super) fn take(&self, target: &Target) -> Option<oneshot::Receiver<T>> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get_mut(&target.uri.to_string())?.pop_front()
    }

    /// Registers an early request for this URL, and returns the sender for its response.
    fn expect(&self, target: &Target) -> oneshot::Sender<T> {
        let (sender, answer) = oneshot::channel();
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(target.uri.to_string()).or_default().push_back(answer);
        sender
    }
}

/// Requests `targets` over HTTP/3 on a new connection, from its shard's thread.
pub(super) fn send(
    client: &Client,
    targets: Vec<Target>,
    priority: Option<Priority>,
) -> Answers<Http3Answer> {
    let answers = Answers::default();
    for target in targets {
        let sender = answers.expect(&target);
        let client = client.clone();
        client.clone().spawn(async move {
            // The receiver is gone if the download was abandoned.
            let _ = sender.send(client.send(request(&target, priority)).await);
        });
    }
    answers
}

/// Requests `targets` over HTTP/0.9 on a new connection, from its shard's thread.
pub(super) fn ask_all(connection: &Connection, targets: Vec<Target>) -> Answers<Http09Answer> {
    let answers = Answers::default();
    for target in targets {
        let sender = answers.expect(&target);
        let connection = connection.clone();
        connection.clone().spawn(async move {
            // The receiver is gone if the download was abandoned.
            let _ = sender.send(ask(&connection, target.path()).await);
        });
    }
    answers
}

#[cfg(test)]
#[path = "early_tests.rs"]
mod tests;
