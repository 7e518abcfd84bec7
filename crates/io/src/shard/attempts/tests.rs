use core::net::SocketAddr;

use super::Attempts;

fn address(number: usize) -> SocketAddr {
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    SocketAddr::from(([127, 1, high, low], 443))
}

#[test]
fn a_report_finds_the_attempts_at_its_address_and_no_others() {
    for others in [1, 10_000] {
        let mut attempts = Attempts::default();
        for number in 0..others {
            attempts.insert(address(number + 1), number);
        }
        attempts.insert(address(0), 20_001);
        attempts.insert(address(0), 20_000);
        let found: Vec<usize> = core::iter::from_fn(|| attempts.take(address(0))).collect();
        assert_eq!(found, [20_000, 20_001]);
        assert_eq!(attempts.len(), others);
        attempts.remove(address(1), 0);
        assert_eq!(attempts.take(address(1)), None);
    }
}
