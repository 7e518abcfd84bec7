use super::*;

#[test]
fn ecn_codepoints_are_those_of_rfc_3168() {
    for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
        assert_eq!(Ecn::from_bits(bits), ecn);
        assert_eq!(Ecn::from_bits(bits | 0b1010_1100), ecn, "the DSCP bits do not matter");
        assert_eq!(ecn.bits(), bits);
    }
}

#[test]
fn ways_are_opposite() {
    assert_eq!(Way::ToServer.other(), Way::ToClient);
    assert_eq!(Way::ToClient.other(), Way::ToServer);
}
