use clap::Parser;

use super::super::arguments::DirectionArguments;
use super::*;

#[derive(Parser, Debug)]
struct Arguments {
    #[command(flatten)]
    directions: DirectionArguments,
}

fn conditions(arguments: &[&str]) -> Result<[Conditions; 2], String> {
    let arguments = std::iter::once(&"link").chain(arguments);
    let parsed = Arguments::try_parse_from(arguments).map_err(|error| error.to_string())?;
    let directions = parsed.directions;
    Ok([directions.conditions(Way::ToServer)?, directions.conditions(Way::ToClient)?])
}

#[test]
fn without_options_the_link_is_perfect() {
    let [to_server, to_client] = conditions(&[]).unwrap();
    assert_eq!(to_server.loss, []);
    assert_eq!(to_server, to_client);
    assert_eq!(to_server, Conditions { reorder: to_server.reorder, ..Conditions::default() });
}

#[test]
fn an_option_for_one_direction_overrides_the_one_for_both() {
    let [to_server, to_client] = conditions(&[
        "--to-client-delay",
        "7ms",
        "--delay=5ms",
        "--to-server-ecn=cleared",
        "--queue",
        "50",
        "--to-client-rate",
        "10mbit",
    ])
    .unwrap();
    assert_eq!(to_server.delay, Duration::from_millis(5));
    assert_eq!(to_client.delay, Duration::from_millis(7));
    assert_eq!((to_server.ecn, to_client.ecn), (EcnTreatment::Cleared, EcnTreatment::Kept));
    assert_eq!((to_server.queue.packets, to_client.queue.packets), (Some(50), Some(50)));
    assert_eq!(to_server.rate, None);
    assert_eq!(to_client.rate, Some(Rate::from_bits_per_second(10_000_000)));
}

#[test]
fn all_loss_models_share_one_loss_period() {
    let [to_server, to_client] = conditions(&[
        "--loss",
        "30%",
        "--to-client-burst",
        "1%:8",
        "--loss-after-bytes",
        "50kB",
        "--loss-for",
        "2s",
    ])
    .unwrap();
    let length = Some(Duration::from_secs(2));
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 50_000, length };
    let random = LossModel::Random { probability: Probability::new(0.3).unwrap() };
    assert_eq!(to_server.loss, [LossRule { model: random.clone(), window }]);
    assert_eq!(to_client.loss.len(), 2);
    assert!(to_client.loss.iter().all(|rule| rule.window == window));

    let [to_server, _] = conditions(&["--loss=1%", "--loss-for=1s"]).unwrap();
    let (after, length) = (Duration::ZERO, Some(Duration::from_secs(1)));
    assert_eq!(to_server.loss[0].window, Window::FromFirstDatagram { after, length });
    let [to_server, _] = conditions(&["--loss-list=1,7"]).unwrap();
    assert_eq!(to_server.loss[0].model, LossModel::List { numbers: vec![1, 7] });
    assert_eq!(to_server.loss[0].window, Window::Always);
    let capped = ["--loss=30%", "--loss-run=3", "--loss-after-bytes=to-server:1000"];
    let [to_server, _] = conditions(&capped).unwrap();
    let window = Window::AfterBytes { way: Way::ToServer, bytes: 1000, length: None };
    assert_eq!(to_server.loss[0].window, window);
    assert!(matches!(to_server.loss[0].model, LossModel::RandomCapped { maximum_run: 3, .. }));
}

#[test]
fn every_option_is_parsed() {
    let [_, all] = conditions(&[
        "--jitter=1ms",
        "--jitter-reorders",
        "--tick=4ms",
        "--overhead=28",
        "--queue-bytes=64KiB",
        "--mark-above=1ms",
        "--gilbert-elliott=1%:30%:0%:50%",
        "--loss-after=3s",
        "--reorder=5%",
        "--reorder-by=3ms",
        "--duplicate=1%",
        "--corrupt=2%",
        "--corrupt-within=20",
        "--mtu=1300",
        "--ecn=dropped",
        "--discipline=codel-ecn",
    ])
    .unwrap();
    assert_eq!(all.jitter.range, Duration::from_millis(1));
    assert!(all.jitter.reorder_by_jitter);
    assert_eq!((all.tick, all.overhead), (Some(Duration::from_millis(4)), 28));
    assert_eq!(all.queue.bytes, Some(65536));
    assert_eq!(all.mark_above, Some(Duration::from_millis(1)));
    assert!(matches!(all.loss[0].model, LossModel::GilbertElliott { .. }));
    assert_eq!(
        all.loss[0].window,
        Window::FromFirstDatagram { after: Duration::from_secs(3), length: None }
    );
    assert_eq!(all.reorder.by, Duration::from_millis(3));
    assert_eq!((all.corrupt.within, all.mtu), (Some(20), Some(1300)));
    assert_eq!(all.ecn, EcnTreatment::Dropped);
    assert_eq!(all.discipline, Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() }));
    assert!(all.duplicate.get() > 0.0 && all.corrupt.probability.get() > 0.0);
}

#[test]
fn the_largest_payload_may_change() {
    let steps = |value: &str| {
        let [all, _] = conditions(&[&format!("--mtu={value}")]).unwrap();
        let seconds = |step: &Step<Option<usize>>| (step.after.as_secs(), step.value);
        (all.mtu, all.mtu_steps.iter().map(seconds).collect::<Vec<_>>())
    };
    assert_eq!(steps("1472"), (Some(1472), vec![]));
    assert_eq!(steps("1300@2s"), (None, vec![(2, Some(1300))]));
    let expected = (Some(1472), vec![(2, Some(1300)), (5, None)]);
    assert_eq!(steps("1472,1300@2s,none@5s"), expected);
}

#[test]
fn the_treatment_of_the_ecn_field_may_change() {
    let steps = |value: &str| {
        let [all, _] = conditions(&[&format!("--ecn={value}")]).unwrap();
        (all.ecn, all.ecn_steps)
    };
    let step = |seconds, value| Step { after: Duration::from_secs(seconds), value };
    assert_eq!(steps("to-ce"), (EcnTreatment::ToCe, vec![]));
    assert_eq!(steps("kept,to-ect1@2s").1, [step(2, EcnTreatment::ToEct1)]);
    assert_eq!(steps("cleared@2s"), (EcnTreatment::Kept, vec![step(2, EcnTreatment::Cleared)]));
}

#[test]
fn errors_name_the_option_and_what_was_expected() {
    for (arguments, expected) in [
        (&["--delay", "5"][..], "--delay"),
        (&["--to-client-loss", "30"][..], "--to-client-loss"),
        (&["--burst", "1%"][..], "1%:8"),
        (&["--gilbert-elliott", "1%:2%"][..], "four probabilities"),
        (&["--loss-after-bytes", "up:5"][..], "to-server"),
        (&["--queue", "many"][..], "many"),
        (&["--mtu", "large"][..], "large"),
        (&["--mtu", "1472,1300"][..], "has no time"),
        (&["--mtu", "1472@2s,1300@2s"][..], "later"),
        (&["--ecn", "bleach"][..], "not one of kept, cleared"),
        (&["--ecn", "kept,cleared"][..], "has no time"),
        (&["--discipline", "fq"][..], "codel-ecn"),
        (&["--loss-run", "3"][..], "without --loss"),
        (&["--loss-for", "3s"][..], "a loss period is set, but no loss"),
        (&["--loss=1%", "--loss-after=1s", "--loss-after-bytes=5"][..], "not both"),
    ] {
        let error = conditions(arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
