use super::path::Application;
use super::*;
use clearway_units::Timestamp;
fn collapse(seed: u64) -> (Duration, Path) {
    let mut link = Link::new(None, ms(5), u64::MAX, seed);
    link.loss = 0.3;
    link.acknowledgement_loss = if seed % 2 == 0 { 0.3 } else { 0.0 };
    if seed % 4 < 2 {
        link.acknowledge_every = 2
    }
    let mut p = Path::new(link, seed);
    p.application = Application::Bytes(10_000_000);
    let start = p.now;
    p.run_for(Duration::from_secs(2));
    p.link.loss = 0.0;
    p.link.acknowledgement_loss = 0.0;
    p.run_until(Duration::from_secs(10), |p| {
        p.application == Application::Bytes(0) && p.in_flight == 0
    });
    (p.now.saturating_since(start), p)
}
#[test]
fn ten_megabytes() {
    let mut all = Vec::new();
    for seed in 0..200 {
        let (t, p) = collapse(seed);
        if t > ms(2600) {
            println!("{seed} {t:?} pc {}", p.bbr.congestion_events);
        }
        all.push(t);
    }
    all.sort();
    println!("max {:?} median {:?}", all.last(), all[all.len() / 2]);
    let _ = Timestamp::ORIGIN;
}
