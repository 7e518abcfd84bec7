//! Compares two tables for new clients.

use std::net::SocketAddr;

use clearway_balancer::{Pool, Server};

use super::datagrams::LOCAL;
use super::servers::takes_new_clients;

/// The number of addresses with which a change is tested.
const SAMPLES: u32 = 256;
/// The maximum fraction of new clients that a change may move between servers that it does not
/// affect: the requirement of `clearway-balancer` for its Maglev table.
pub(super) const FEW: f64 = 0.02;

/// Returns the number of sampled new clients, and how many of them move from one server to another
/// although neither server has changed.
pub(super) fn moved(before: &Pool, after: &Pool, version: u64) -> (u64, u64) {
    let mut counts = (0, 0);
    for client in clients(version) {
        let (Some((old_key, old)), Some((new_key, new))) =
            (before.by_hash(client, LOCAL), after.by_hash(client, LOCAL))
        else {
            continue;
        };
        counts.0 += 1;
        let is_as_before = |was: Option<&Server>, is: Option<&Server>| {
            was.zip(is).is_some_and(|(was, is)| {
                was.weight == is.weight && takes_new_clients(was) && takes_new_clients(is)
            })
        };
        let is_concerned = !is_as_before(Some(old), after.server(old_key))
            || !is_as_before(before.server(new_key), Some(new));
        counts.1 += u64::from(old_key != new_key && !is_concerned);
    }
    counts
}

/// Returns a new client that two pools with the same servers assign to different servers.
pub(super) fn disagreement(one: &Pool, other: &Pool) -> Option<SocketAddr> {
    let key = |pool: &Pool, client| pool.by_hash(client, LOCAL).map(|(key, _)| key);
    clients(0).find(|client| key(one, *client) != key(other, *client))
}

/// Returns sample addresses, which differ for each version.
fn clients(version: u64) -> impl Iterator<Item = SocketAddr> {
    let third = version as u8;
    (0..SAMPLES).map(move |number| ([192, 0, third, number as u8], 4_433).into())
}
