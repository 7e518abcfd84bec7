use super::*;

/// The same URL may be requested twice; each download takes the response to one of the requests.
#[test]
fn each_response_is_taken_once_and_in_order() {
    let target = |path: &str| Target::parse(&format!("https://a.example/{path}")).unwrap();
    let answers = Answers::<u32>::default();
    let senders = ["a", "b", "a"].map(|path| answers.expect(&target(path)));
    for (sender, answer) in senders.into_iter().zip(1..) {
        sender.send(answer).unwrap();
    }
    let take = |path: &str| answers.take(&target(path)).map(|mut it| it.try_recv().unwrap());
    assert_eq!(take("c"), None);
    assert_eq!([take("a"), take("a"), take("a")], [Some(1), Some(3), None]);
    assert_eq!([take("b"), take("b")], [Some(2), None]);
}
