//! Tests that the pictures of the demo and the lab match the program's output. `cargo xtask
//! figures` redraws them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Scratch, clearway, succeed};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the texts in a picture, with single spaces between words.
fn texts(picture: &str) -> Vec<String> {
    let svg = fs::read_to_string(root().join("docs/pictures").join(picture)).unwrap();
    let texts = svg.split("<text").skip(1).filter_map(|it| {
        let (_, text) = it.split_once('>')?;
        Some(spaced(&text.split("</text>").next()?.replace("&#160;", " ")))
    });
    texts.collect()
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_picture_of_the_lab_has_the_times_of_its_command() {
    let texts = texts("lab.svg");
    for (controller, title) in [("reno", "Reno"), ("cubic", "CUBIC"), ("bbr", "BBR")] {
        let mut command = clearway(&["lab", "replay", "collapse", "--controller", controller]);
        command.args(["--seed", "1"]).current_dir(root());
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let seconds = printed.lines().find_map(|line| {
            line.strip_prefix("finished after ")?.strip_suffix(" s")?.parse::<f64>().ok()
        });
        let expected = format!("done after {:.2} s", seconds.unwrap());
        let at = texts.iter().position(|text| text == title).unwrap();
        assert_eq!(texts[at + 1], expected, "{title}: cargo xtask figures draws it again");
    }
}

#[test]
fn the_picture_of_the_demo_has_the_lines_that_it_prints() {
    let texts = texts("demo.svg");
    let scratch = Scratch::new("picture");
    let small = ["--size", "1", "--loss-for", "0s", "--controller", "reno", "--out"];
    let output = succeed(&[&["demo"][..], &small, &[&scratch.path("runs")]].concat());
    let (table, status) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(texts.contains(&spaced(table.lines().next().unwrap())), "{table}");
    let last: Vec<&str> = status.lines().rev().take(2).collect();
    for line in last {
        let (words, _) = line.rsplit_once(' ').unwrap();
        assert!(texts.iter().any(|text| text.starts_with(words)), "{words}");
    }
    // The table has a row for each controller, and the command is the one in the README.
    for controller in ["reno", "cubic", "bbr"] {
        assert!(texts.iter().any(|text| text.starts_with(controller)), "{controller}");
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("    {}\n", texts[0].trim_start_matches("$ "))));
}
