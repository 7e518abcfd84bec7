//! Every table that a peer can fill, driven to ten times its cap: what is allocated stays below a bound.

use std::fmt::Write as _;

use clearway_limits::attack;

#[test]
fn what_a_peer_can_make_an_endpoint_keep_is_bounded() {
    let mut table = format!("{:<46} {:>12} {:>12}  outcome\n", "attack", "peak bytes", "bound");
    let mut over = Vec::new();
    for attack in attack::all() {
        let mut scene = attack.scene();
        let used = allocation_counter::measure(|| (attack.drive)(&mut scene));
        let outcome = match (&scene.closed, scene.is_closed()) {
            (Some(error), _) => format!("closed: {error}"),
            (None, true) => "closed".to_owned(),
            (None, false) => "open".to_owned(),
        };
        let sent = scene.victim.connection(scene.handle).map_or(0, |c| c.statistics().packets_sent);
        let outcome = format!("{outcome}; {sent} packets sent");
        let name = attack.name;
        let _ =
            writeln!(table, "{name:<46} {:>12} {:>12}  {outcome}", used.bytes_max, attack.bound);
        if used.bytes_max > attack.bound {
            over.push(format!("{name}: {} bytes; the bound: {}", used.bytes_max, attack.because));
        }
    }
    println!("{table}");
    assert!(over.is_empty(), "more is kept than should be:\n{}\n{table}", over.join("\n"));
}
