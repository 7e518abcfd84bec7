use std::collections::BTreeSet;

use super::{Evidence, Verdict, ensure};
use crate::capture::{Kind, Sender, Trace, V1, V2};

/// Checks that the client starts in version 1, and that both endpoints continue in version 2.
pub(super) fn become_2(evidence: &Evidence<'_>) -> Verdict {
    let of = |trace: &Trace, sender, kind| -> BTreeSet<u32> {
        trace.of(sender, kind).map(|packet| packet.version).collect()
    };
    let (client, server) = (evidence.client, evidence.server);
    let initial = of(client, Sender::Client, Kind::Initial);
    ensure(initial.contains(&V1), || {
        format!("the client's Initial packets have versions {initial:#x?}")
    })?;
    let initial = of(server, Sender::Server, Kind::Initial);
    ensure(initial.contains(&V2), || {
        format!("the server's Initial packets have versions {initial:#x?}")
    })?;
    for (name, trace, sender) in
        [("client", client, Sender::Client), ("server", server, Sender::Server)]
    {
        let versions = of(trace, sender, Kind::Handshake);
        ensure(versions == BTreeSet::from([V2]), || {
            format!("the {name}'s Handshake packets have versions {versions:#x?}")
        })?;
    }
    Ok("all Handshake packets have version 2".to_owned())
}
