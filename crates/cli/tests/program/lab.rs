//! Tests `clearway lab` with small parameters.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Scratch, clearway, fail, succeed};

const SMALL: &str = r#"
summary = "A small download."
limit = "5s"
seeds = 3
controllers = ["reno", "cubic"]

[[reference]]
figure = "0.1 s"
source = "nobody"
controller = "cubic"

[network]
delay = "5ms"
jitter = "1ms"

[[flow]]
name = "download"
traffic = { download = "20kB" }

[[variant]]
name = "with loss"
share = 0.5
network.loss = [{ random = "5%" }]
"#;

/// Creates a directory with the small scenario.
fn library(name: &str) -> (Scratch, String) {
    let scratch = Scratch::new(name);
    fs::create_dir(scratch.path("scenarios")).unwrap();
    fs::write(scratch.path("scenarios/small.toml"), SMALL).unwrap();
    let folder = scratch.path("scenarios");
    (scratch, folder)
}

fn lines(output: &Output) -> Vec<Value> {
    let text = str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_is_a_table() {
    let (_scratch, folder) = library("lab-run");
    // With `--variant`, properties across runs are not checked; that would take too long in a debug
    // build.
    let every = ["--variant", "base", "--variant", "with loss"];
    let all = succeed(&[&["lab", "run", "--all", "--scenarios", &folder], &every[..]].concat());
    let one = succeed(&["lab", "run", "small", "--scenarios", &folder, "--threads", "1"]);
    assert_eq!(all.stdout, one.stdout);
    let text = String::from_utf8(all.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["small"]);
    assert_eq!(rows[2][..4], ["base", "reno", "3", "3"]);
    assert_eq!(rows[3][..4], ["base", "cubic", "3", "3"]);
    assert_eq!(rows[4], ["published:", "0.1", "s", "(nobody)"]);
    assert_eq!(rows[5][..5], ["with", "loss", "reno", "2", "2"]);
    assert_eq!(rows[6][..3], ["with", "loss", "cubic"]);
    assert!(
        rows[2..7].iter().filter(|row| row[0] != "published:").all(|row| row.ends_with(&["yes"]))
    );
}

#[test]
fn a_comparison_is_a_row() {
    let arguments = ["lab", "across", "M5", "--controller", "reno"];
    let table = String::from_utf8(succeed(&arguments).stdout).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), &rows[2][..2]), (3, &["M5", "reno"][..]), "{table}");
    assert!(rows[2].ends_with(&["at", "most", "1.0", "dg", "yes"]), "{table}");
    let lines = lines(&succeed(&[&arguments[..], &["--json"]].concat()));
    let [line] = lines.as_slice() else { panic!("{}", lines.len()) };
    assert_eq!((&line["property"], &line["unit"]), (&"M5".into(), &"datagrams".into()));
    assert_eq!((&line["runs"], &line["expectations_met"]), (&4.into(), &true.into()));
    assert_eq!((&line["at_least"], &line["at_most"]), (&Value::Null, &1.0.into()));
    let refused = clearway(&["lab", "across", "S1"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(str::from_utf8(&refused.stderr).unwrap().contains("it is checked in every scenario"));
}

#[test]
fn every_property_is_listed() {
    let lines = lines(&succeed(&["lab", "properties", "--json"]));
    let checked = |how: &str| lines.iter().filter(|line| line["checked"] == how).count();
    assert_eq!((lines.len(), checked("run"), checked("across")), (54, 41, 13));
    let text = String::from_utf8(succeed(&["lab", "properties"]).stdout).unwrap();
    assert!(text.contains("L1   The window grows") && text.contains("Fd   Different"), "{text}");
}

#[test]
fn unmet_expectations_are_reported() {
    let (scratch, _) = library("lab-unmet");
    let file = scratch.path("strict.toml");
    fs::write(&file, format!("{SMALL}\n[expect]\nwithin = \"10ms\"\nfloor_reached = 0.9\n"))
        .unwrap();
    let arguments = ["lab", "run", &file, "--controller", "cubic", "--variant", "base"];
    let output = clearway(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let late = "every run within 0.010 s: 3 of 3 runs were late (seeds 0, 1, 2; the longest:";
    assert!(text.contains(" NO\n") && text.contains(late), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("1 of 1 results were not as expected; the first: strict, \"base\", cubic")
    );
    let output = clearway(&[&arguments[..], &["--json"]].concat()).output().unwrap();
    let line = &lines(&output)[0];
    assert_eq!(line["expectations_met"], false);
    assert_eq!(line["unmet"].as_array().unwrap().len(), 2);
    assert_eq!(line["late_seeds"], serde_json::json!([0, 1, 2]));
    assert_eq!((&line["violations"], &line["violated"][0]["property"]), (&0.into(), &"L9".into()));
    // The command that the report contains shows the same for one seed.
    let replay = format!(" replay {file} --controller cubic --variant base --seed 0\n");
    assert!(errors.contains("seed 0: not as expected: every run") && errors.contains(&replay));
    let words: Vec<_> = ["lab"].into_iter().chain(replay.split_whitespace()).collect();
    let output = clearway(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nnot as expected: every run within 0.010 s: 0."), "{text}");
    assert!(text.contains(" with seed 0\n") && !text.contains("floor"), "{text}");
}

#[test]
fn a_sweep_is_a_line_of_json_for_each() {
    let (scratch, folder) = library("lab-sweep");
    let out = scratch.path("seeds.json");
    let sweep = ["lab", "sweep", "small", "--scenarios", &folder, "--seeds", "6", "--json"];
    let output = succeed(&[&sweep[..], &["--first-seed", "100", "--out", &out]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let order = ["scenario", "controller", "variant", "seeds", "finished", "violations"];
    let order = [&order[..], &["floor_reached", "p50_s", "p99_s", "max_s", "wall_s"]].concat();
    let places: Vec<_> =
        order.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
    let lines = lines(&output);
    let names: Vec<_> = lines
        .iter()
        .map(|line| (line["variant"].as_str().unwrap(), line["controller"].as_str().unwrap()))
        .collect();
    let (base, lossy) = ("base", "with loss");
    assert_eq!(names, [(base, "reno"), (base, "cubic"), (lossy, "reno"), (lossy, "cubic")]);
    assert_eq!((&lines[0]["seeds"], &lines[2]["seeds"]), (&6.into(), &3.into()));
    for line in &lines {
        assert_eq!(line["finished"], line["seeds"]);
        assert_eq!((&line["violations"], &line["complete"]), (&0.into(), &true.into()));
        assert!(line["p50_s"].as_f64() <= line["max_s"].as_f64(), "{line}");
    }
    let seeds = fs::read_to_string(&out).unwrap();
    let seeds: Vec<Value> = seeds.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seeds.len(), 18);
    assert_eq!((&seeds[0]["seed"], &seeds[5]["seed"]), (&100.into(), &105.into()));
    assert_eq!(seeds[0]["stop"], "finished");
    assert!(seeds[0]["took_s"].is_number() && seeds[0]["floor"].is_boolean());
    let one = ["--variant", "base", "--controller", "cubic", "--threads", "3"];
    let again = succeed(&[&sweep[..], &["--first-seed", "100"], &one[..]].concat());
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["p50_s"], &again["max_s"]), (&lines[1]["p50_s"], &lines[1]["max_s"]));
}

#[test]
fn an_interrupted_sweep_prints_its_results() {
    let (scratch, _) = library("lab-interrupted");
    let file = scratch.path("long.toml");
    let text = SMALL.replace("limit =", "base = false\nlimit =").replace("0.5", "0.000001");
    fs::write(&file, format!("{text}\n[[variant]]\nname = \"many\"\n")).unwrap();
    let out = scratch.path("seeds.json");
    let arguments = ["lab", "sweep", &file, "--seeds", "1000000", "--controller", "reno"];
    let mut command = clearway(&[&arguments[..], &["--json", "--out", &out]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut results = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    results.read_line(&mut first).unwrap();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut rest = String::new();
    results.read_to_string(&mut rest).unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{errors}");
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["seeds"], &first["complete"]), (&1.into(), &true.into()));
    // It is possible that no run of the second job was started.
    for line in rest.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["variant"], &line["complete"]), (&"many".into(), &false.into()));
        assert!(line["seeds"].as_u64().unwrap() < 1_000_000, "{line}");
        assert_eq!(line["seeds"], line["finished"]);
    }
    let last = errors.lines().last().unwrap();
    assert!(last.starts_with("clearway: interrupted: some seeds were not run"), "{last}");
    assert!(fs::read_to_string(&out).unwrap().lines().count() >= 1);
}

#[test]
fn a_replay_gives_the_same_bytes() {
    let (scratch, folder) = library("lab-replay");
    let replay = ["lab", "replay", "small", "--scenarios", &folder, "--controller", "cubic"];
    let replay = [&replay[..], &["--variant", "with loss", "--seed"]].concat();
    let once = |seed| succeed(&[&replay[..], &[seed]].concat()).stdout;
    let first = String::from_utf8(once("1")).unwrap();
    assert_eq!(first.as_bytes(), once("1"));
    assert_ne!(first.as_bytes(), once("2"));
    assert!(first.starts_with("small, \"with loss\", cubic, seed 1\nfinished after 0."), "{first}");
    let digest = first.lines().last().unwrap().split(' ').next_back().unwrap();
    assert_eq!(digest.len(), 64, "{first}");
    let qlog = scratch.path("run.sqlog");
    let logged = succeed(&[&replay[..], &["1", "--qlog", &qlog]].concat()).stdout;
    assert_eq!(logged, first.as_bytes());
    let log = fs::read(&qlog).unwrap();
    assert!(log.starts_with(b"\x1e{") && log.ends_with(b"\n"));
    succeed(&[&replay[..], &["1", "--qlog", &qlog]].concat());
    assert_eq!(fs::read(&qlog).unwrap(), log);
}

#[test]
fn all_scenarios_are_listed() {
    let (_scratch, folder) = library("lab-list");
    let list = ["lab", "list", "--scenarios", &folder];
    let text = |arguments: &[&str]| String::from_utf8(succeed(arguments).stdout).unwrap();
    assert_eq!(text(&list), "small  A small download.\n");
    let details = text(&[&list[..], &["small"]].concat());
    for part in ["small\n", "A small download.", "reno, cubic", "seeds: 3", "base, with loss"] {
        assert!(details.contains(part), "{part:?} is not in {details:?}");
    }
    let line = &lines(&succeed(&[&list[..], &["--json"]].concat()))[0];
    assert_eq!((&line["scenario"], &line["seeds"]), (&"small".into(), &3.into()));
    assert_eq!(line["variants"], serde_json::json!(["base", "with loss"]));
}

#[test]
fn invalid_arguments_and_scenarios_give_one_clear_line() {
    let (scratch, folder) = library("lab-wrong");
    let says = |arguments: &[&str], expected: &[&str]| {
        let line = fail(&[&["lab"][..], arguments].concat());
        for part in expected {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
    };
    let wrong = scratch.path("wrong.toml");
    fs::write(&wrong, SMALL.replace("delay =", "dealy =")).unwrap();
    says(&["run", &wrong], &["wrong.toml:13:", "dealy", "delay"]);
    let missing = scratch.path("missing");
    says(&["list", "--scenarios", &missing], &[&missing, "No such file", "--scenarios"]);
    says(&["run", "--all", "--scenarios", &missing], &[&missing, "--scenarios"]);
    says(&["run", "smal", "--scenarios", &folder], &["\"smal\"", &folder, "did you mean small?"]);
    says(&["run", "no/such.toml"], &["no/such.toml"]);
    let variant = ["run", "small", "--scenarios", &folder, "--variant", "lossy"];
    says(&variant, &["lossy", "\"base\", \"with loss\""]);
    let nowhere = scratch.path("no/seeds.json");
    let out = ["sweep", "small", "--scenarios", &folder, "--seeds", "1", "--out", &nowhere];
    says(&out, &["seeds.json", "No such file", "--out"]);
    let code = |arguments: &[&str]| clearway(arguments).output().unwrap().status.code();
    assert_eq!(code(&["lab", "run", "small", "--controller", "cubic,vegas"]), Some(2));
    assert_eq!(code(&["lab", "run"]), Some(2));
    assert_eq!(code(&["lab", "sweep", "small", "--seeds", "0"]), Some(2));
}

/// To simulate a full disk, files are limited to 512 bytes or 1 kB, depending on the shell.
#[test]
fn a_file_of_seeds_that_cannot_be_written_to_its_end() {
    let (scratch, folder) = library("lab-full");
    let out = scratch.path("seeds.json");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_clearway")]);
    command.args(["lab", "sweep", "small", "--scenarios", &folder, "--seeds", "20", "--out", &out]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("clearway: cannot write") && errors.contains("too large"), "{errors}");
    assert_eq!(scratch.names(), ["scenarios"]);
}

/// A scenario with one small download and without randomness.
const STILL: &str = r#"
summary = "A small download."
limit = "5s"
controllers = ["reno", "cubic"]

[network]
delay = "5ms"

[[flow]]
name = "download"
traffic = { download = "20kB" }
"#;

#[test]
fn one_disturbance_at_every_moment() {
    let scratch = Scratch::new("lab-disturb");
    fs::write(scratch.path("still.toml"), STILL).unwrap();
    let file = scratch.path("still.toml");
    let every = ["lab", "disturb", &file, "--controller", "cubic", "--disturbance", "lose,reorder"];
    let rows = lines(&succeed(&[&every[..], &["--json"]].concat()));
    let names: Vec<_> = rows.iter().map(|row| row["disturbance"].as_str().unwrap()).collect();
    assert_eq!(names, ["lose", "reorder"]);
    for row in &rows {
        assert_eq!((&row["controller"], &row["variant"]), (&"cubic".into(), &"base".into()));
        assert!(row["runs"].as_u64().unwrap() > 20 && row["runs"] == row["finished"], "{row}");
        assert_eq!((&row["violations"], &row["found"]), (&0.into(), &serde_json::json!({})));
        assert!(row["p50_s"].as_f64() <= row["max_s"].as_f64());
        assert!(row["max_s"].as_f64() <= row["bound_s"].as_f64());
        assert!(row["worst"].as_str().unwrap().starts_with("--disturbance "), "{row}");
    }

    // The worst run of a row can be repeated with its log.
    let worst = rows[0]["worst"].as_str().unwrap().split(' ');
    let (log, mut once) = (scratch.path("one.sqlog"), every[..5].to_vec());
    once.extend(worst.chain(["--qlog", &log]));
    let text = String::from_utf8(succeed(&once).stdout).unwrap();
    assert!(text.starts_with("finished after "), "{text}");
    assert!(fs::read(&log).unwrap().starts_with(b"\x1e{"));

    // Pairs have only one row, which is the table.
    let pairs = succeed(&[&every[..], &["--pairs", "5"]].concat());
    let text = String::from_utf8(pairs.stdout).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("pair") && text.contains("datagram:"), "{text}");

    for wrong in [["--disturbance", "noise"], ["--at", "noon"]] {
        let refused = clearway(&[&every[..5], &wrong].concat()).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(wrong[1]), "{wrong:?}");
    }
}

#[test]
fn outside_of_a_checkout_the_scenarios_are_those_of_the_program() {
    let scratch = Scratch::new("lab-anywhere");
    let run = |arguments: &[&str]| {
        let mut command = clearway(arguments);
        command.current_dir(scratch.path("")).output().unwrap()
    };
    let list = run(&["lab", "list"]);
    assert!(list.status.success(), "{list:?}");
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.lines().any(|line| line.starts_with("collapse   ")), "{list}");
    assert!(list.contains("\ncellular   "), "{list}");
    // The scenario's network is a recorded trace, which is in a separate file.
    let replay = run(&["lab", "replay", "cellular", "--controller", "cubic", "--seed", "1"]);
    assert!(replay.status.success(), "{replay:?}");
    // A file in the current folder does not replace a built-in scenario.
    fs::create_dir(scratch.path("scenarios")).unwrap();
    fs::write(scratch.path("collapse"), "").unwrap();
    let replay = run(&["lab", "replay", "collapse", "--controller", "cubic", "--seed", "1"]);
    assert!(replay.status.success(), "{replay:?}");
}

#[test]
fn a_name_without_a_scenario_gets_the_advice_that_helps() {
    let scratch = Scratch::new("lab-names");
    fs::write(scratch.path("mine.toml"), SMALL).unwrap();
    let run = |scenario: &str| {
        let mut command = clearway(&["lab", "run", scenario, "--threads", "1"]);
        command.current_dir(scratch.path("")).output().unwrap()
    };
    for (argument, expected) in [
        ("no-such", "unknown scenario \"no-such\"; run `clearway lab list` to list all scenarios"),
        ("colapse", "unknown scenario \"colapse\"; did you mean collapse? run `clearway lab list`"),
        ("mine", "unknown scenario \"mine\"; ./mine.toml is a file"),
        (
            "collapse.toml",
            "the scenario file \"collapse.toml\" does not exist; did you mean the scenario collapse?",
        ),
        (
            "my/own.toml",
            "the scenario file \"my/own.toml\" does not exist; run `clearway lab list` to list all scenarios",
        ),
    ] {
        let output = run(argument);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(expected), "{expected:?} is not in {errors:?}");
        assert_eq!(output.status.code(), Some(1));
    }
    assert!(run("mine.toml").status.success());
    assert!(run("./mine.toml").status.success());
}

#[test]
fn a_demo_leaves_nothing_in_the_current_folder() {
    let scratch = Scratch::new("demo-anywhere");
    std::fs::create_dir(scratch.path("here")).unwrap();
    let mut command =
        clearway(&["demo", "--size", "1", "--loss-for", "0s", "--controller", "reno"]);
    command.current_dir(scratch.path("here")).env("XDG_CACHE_HOME", scratch.path("cache"));
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let folder = scratch.path("cache/clearway/demo");
    let expected = format!(
        "the qlog file of each run is in {folder}\n\
         to view the slowest run: clearway view {folder}/reno-1.sqlog\n"
    );
    assert!(errors.ends_with(&expected), "{errors}");
    assert!(std::fs::exists(format!("{folder}/reno-1.sqlog")).unwrap());
    assert_eq!(std::fs::read_dir(scratch.path("here")).unwrap().count(), 0);
}
