use core::time::Duration;

use clearway_units::packed::{Packer, Unpacker};

use crate::testing::{Fate, Sender, parameters};
use crate::{Algorithm, Controller, ControllerFactory};

#[test]
fn every_algorithm_is_found_by_its_name() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        assert_eq!(algorithm.build(&parameters(None)).name(), algorithm.name());
    }
    assert_eq!(Algorithm::default(), Algorithm::Cubic);
}

#[test]
fn an_unknown_name_is_rejected_with_the_list_of_names() {
    let error = "vegas".parse::<Algorithm>().unwrap_err();
    let message = error.to_string();
    assert_eq!(message, "unknown congestion controller \"vegas\"; choose one of: reno cubic bbr");
}

/// Packs and unpacks a controller, checking that no bytes are left over.
fn repacked(controller: &dyn Controller) -> Box<dyn Controller> {
    let mut packer = Packer::new();
    let unpack = controller.pack(&mut packer).expect("our own controllers can be packed");
    let bytes = packer.finish();
    let mut unpacker = Unpacker::new(&bytes);
    let same = unpack(&mut unpacker);
    assert!(unpacker.is_at_end(), "{} packs bytes that it does not unpack", controller.name());
    same
}

/// Runs two senders with the same history, which includes losses, recovery and the state that is
/// kept for an undo. One of them packs its controller after every round.
#[test]
fn a_controller_that_was_packed_goes_on_as_before() {
    for algorithm in Algorithm::ALL {
        let rtt = Duration::from_millis(50);
        let sender = || Sender::new(algorithm.build(&parameters(None)), rtt);
        let mut senders = [sender(), sender()];
        for round in 0..60 {
            senders[1].controller = repacked(&*senders[1].controller);
            let [kept, packed] = senders.each_mut().map(|sender| {
                sender.fill();
                sender.wait(rtt);
                if round % 9 == 7 {
                    sender.settle_one(Fate::Lost);
                }
                if round % 18 == 17 {
                    let late = sender.lost.pop().expect("a lost packet");
                    sender.arrives_late(late, 0);
                }
                sender.acknowledge_first(5);
                sender.acknowledge_all();
                format!("{:?}", sender.controller)
            });
            assert_eq!(packed, kept, "{algorithm}, round {round}");
        }
        assert!(senders[0].snapshot().congestion_events > 0, "{algorithm}");
    }
}
