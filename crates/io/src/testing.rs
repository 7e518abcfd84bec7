//! Groups of shards, clients and NATs for tests of this crate and other crates. Requires the cargo
//! feature `testing`.

mod download;
mod relay;

use core::num::NonZeroUsize;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clearway_transport::{EndpointConfig, RandomIds, ResetKey};

use crate::shard_ids::FIRST_OCTET;
use crate::{
    GroupOptions, GroupServerSetup, ShardGroup, ShardHandle, ShardStatistics, Steering, group,
    spawn,
};

pub use download::{Client, Everyone, PANIC, download};
pub use relay::{Entrance, FirstOctets, Relay};

/// How long a test waits for something that must happen.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the configuration of servers and clients with random IDs.
pub fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        // Clients are assigned to shards at random: a shard may get many more than its share.
        max_connections: 1_000,
    }
}

/// Starts a group whose datagrams are distributed with `steering` as the best method.
///
/// # Errors
/// Returns the same errors as [`spawn_group_with`](crate::spawn_group_with).
pub fn spawn_steered(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
    options: GroupOptions,
    steering: Steering,
) -> io::Result<ShardGroup> {
    group::spawn_steered(address, count, config, server, options, steering)
}

/// Returns the address that clients connect to.
pub fn address(group: &ShardGroup) -> SocketAddr {
    group.shards()[0].local_address()
}

/// Returns the total of the shards' statistics.
pub fn total(group: &ShardGroup) -> ShardStatistics {
    group.shards().iter().map(ShardHandle::statistics).sum()
}

/// Waits until `condition` holds for the total of the shards' statistics.
pub fn wait_until(group: &ShardGroup, condition: impl Fn(&ShardStatistics) -> bool) {
    let begun = Instant::now();
    while !condition(&total(group)) {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", total(group));
        std::thread::yield_now();
    }
}

/// Returns a packet with a short header, and a connection ID that begins like the IDs of groups.
pub fn short_header(second: u8) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..3].copy_from_slice(&[0x40, FIRST_OCTET, second]);
    packet
}

/// Starts a shard for clients.
pub fn client() -> ShardHandle {
    spawn("127.0.0.1:0".parse().unwrap(), endpoint_config(), None).unwrap()
}
