//! Resolves the loss rules: which datagrams are lost, and when.

use clearway_network::{LossModel, LossRule, Probability, Way, Window};
use toml::Spanned;

use crate::scenario::error::Fault;
use crate::scenario::file::network::{After, Loss};

pub(super) fn rule(written: &Spanned<Loss>) -> Result<LossRule, Fault> {
    let loss = written.get_ref();
    let [model] = <[LossModel; 1]>::try_from(models(loss)).map_err(|_| {
        Fault::new(
            written.span(),
            "a loss needs exactly one of random, capped, burst, gilbert_elliott, large and list",
        )
    })?;
    Ok(LossRule { model, window: window(loss) })
}

fn models(loss: &Loss) -> Vec<LossModel> {
    let random = loss.random.map(|portion| LossModel::Random { probability: portion.0 });
    let capped = loss.capped.map(|capped| LossModel::RandomCapped {
        probability: capped.probability.0,
        maximum_run: capped.longest.0,
    });
    let burst = loss
        .burst
        .map(|burst| LossModel::Burst { start: burst.start.0, maximum_run: burst.longest.0 });
    let gilbert_elliott = loss.gilbert_elliott.map(|states| LossModel::GilbertElliott {
        good_to_bad: states.good_to_bad.0,
        bad_to_good: states.bad_to_good.0,
        loss_in_good: states.loss_in_good.map_or(Probability::NEVER, |portion| portion.0),
        loss_in_bad: states.loss_in_bad.0,
    });
    let large = loss.large.map(|large| LossModel::RandomLarge {
        larger_than: large.than,
        probability: large.probability.0,
    });
    let list = loss.list.as_ref().map(|numbers| LossModel::List {
        numbers: numbers.iter().map(|number| number.0).collect(),
    });
    [random, capped, burst, gilbert_elliott, large, list].into_iter().flatten().collect()
}

fn window(loss: &Loss) -> Window {
    let length = loss.length.map(|time| time.0);
    match (loss.after, length) {
        (None, None) => Window::Always,
        (None, Some(_)) => Window::FromFirstDatagram { after: Default::default(), length },
        (Some(After::Time(time)), _) => Window::FromFirstDatagram { after: time.0, length },
        (Some(After::ToClient(size)), _) => {
            Window::AfterBytes { way: Way::ToClient, bytes: size.0, length }
        }
        (Some(After::ToServer(size)), _) => {
            Window::AfterBytes { way: Way::ToServer, bytes: size.0, length }
        }
    }
}
