use super::*;

#[test]
fn the_progress_includes_the_total_if_it_is_known() {
    let mut progress = Bars::new(true).start("file");
    assert_eq!((progress.text(), progress.received()), ("0 B".to_owned(), 0));
    progress.add(1_000_000);
    progress.add(500_000);
    assert_eq!((progress.text(), progress.received()), ("1.5 MB".to_owned(), 1_500_000));
    progress.expect(Some(3_000_000));
    assert_eq!(progress.text(), "1.5 MB of 3.0 MB");
    progress.expect(None);
    assert_eq!(progress.text(), "1.5 MB");
    assert!(progress.goodput() > 0.0 && progress.goodput().is_finite());
}
