use super::*;
#[test]
fn smoke() {
    let mut p = path();
    p.run_for(Duration::from_secs(12));
    for (t, s) in &p.history { println!("{:?} {:?}", t.since_origin() - Duration::from_secs(1), s); }
    println!("{:?}", p.bbr);
    println!("arrived {} lost {}", p.arrived as f64 / 12.0 * 8.0 / 1e6, p.lost_bytes);
    assert_estimates(&p, megabits(20));
}
