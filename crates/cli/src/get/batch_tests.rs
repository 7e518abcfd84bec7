use super::*;

#[test]
fn a_summary_names_some_of_the_failed_urls() {
    let of = |count: usize| {
        let failed = (1..=count).map(|number| format!("https://a/{number}")).collect();
        summary(&failed, 9).to_string()
    };
    assert_eq!(of(1), "1 of 9 URLs were not downloaded: https://a/1");
    let five = "https://a/1, https://a/2, https://a/3, https://a/4, https://a/5";
    assert_eq!(of(5), format!("5 of 9 URLs were not downloaded: {five}"));
    assert_eq!(of(6), format!("6 of 9 URLs were not downloaded: {five}, 1 more"));
    assert_eq!(of(8), format!("8 of 9 URLs were not downloaded: {five}, 3 more"));
}
