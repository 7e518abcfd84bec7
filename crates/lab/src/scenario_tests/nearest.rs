use super::super::nearest::nearest;

#[test]
fn finds_the_intended_word() {
    let keys = ["delay", "delay_steps", "rate", "rate_steps", "jitter", "loss"];
    for (written, meant) in [
        ("dleay", Some("delay")),
        ("dely", Some("delay")),
        ("Delay", Some("delay")),
        ("rates", Some("rate")),
        ("delay-steps", Some("delay_steps")),
        ("rate_step", Some("rate_steps")),
        ("jiter", Some("jitter")),
        ("los", Some("loss")),
        ("bandwidth", None),
        ("", None),
    ] {
        assert_eq!(nearest(written, keys), meant, "{written}");
    }
    assert_eq!(nearest("delay", []), None);
}
