use super::{Evidence, Verdict, ensure};
use crate::capture::{Packet, Sender, Trace};

/// The ECN codepoints ECT(1) and ECT(0), and CE.
const ECT: [u8; 2] = [0b01, 0b10];
const CE: u8 = 0b11;

/// Checks that each endpoint marks packets as ECN-capable, and acknowledges the other endpoint's
/// marks.
pub(super) fn are_ect_and_acknowledged(evidence: &Evidence<'_>) -> Verdict {
    super::handshake::without_retry(evidence)?;
    let sides =
        [("client", evidence.client, Sender::Client), ("server", evidence.server, Sender::Server)];
    let mut found = Vec::new();
    for (name, trace, sender) in sides {
        let marked = count(trace, sender, |packet| ECT.contains(&packet.ecn));
        let congested = count(trace, sender, |packet| packet.ecn == CE);
        let acknowledgements = count(trace, sender, |packet| {
            packet.opened.as_ref().is_some_and(|opened| opened.frames.acknowledges_ecn)
        });
        ensure(marked > 0, || format!("the {name} did not mark any packet ECT(0) or ECT(1)"))?;
        ensure(congested == 0, || format!("the {name} sent {congested} packets marked CE"))?;
        ensure(acknowledgements > 0, || {
            format!(
                "the {name} did not send any ACK frame with ECN \
            counts"
            )
        })?;
        found.push(format!(
            "{name}: {marked} ECT packets, {acknowledgements} ACK frames with ECN \
            counts"
        ));
    }
    Ok(found.join("; "))
}

fn count(trace: &Trace, sender: Sender, is_wanted: impl Fn(&Packet) -> bool) -> usize {
    trace.from(sender).filter(|packet| is_wanted(packet)).count()
}
