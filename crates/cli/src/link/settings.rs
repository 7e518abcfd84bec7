//! The options that describe one direction of a link.

use std::time::Duration;

use clearway_network::{
    CoDel, Conditions, Corrupt, Discipline, DualPi2, EcnTreatment, Jitter, LossModel, LossRule,
    Probability, QueueLimit, Reorder, Step, Way, Window, parse_duration, parse_probability,
    parse_rate, parse_size,
};
use clearway_units::Rate;

/// The options of one direction, parsed.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Settings {
    delay: Duration,
    jitter: Jitter,
    tick: Option<Duration>,
    rate: Option<Rate>,
    overhead: u16,
    queue: QueueLimit,
    mark_above: Option<Duration>,
    loss: Option<Probability>,
    loss_run: Option<u32>,
    burst: Option<(Probability, u32)>,
    gilbert_elliott: Option<[Probability; 4]>,
    listed: Vec<u64>,
    loss_for: Option<Duration>,
    loss_after: Option<Duration>,
    loss_after_bytes: Option<(Way, u64)>,
    reorder: Reorder,
    duplicate: Probability,
    corrupt: Corrupt,
    mtu: Option<usize>,
    mtu_steps: Vec<Step<Option<usize>>>,
    ecn: EcnTreatment,
    ecn_steps: Vec<Step<EcnTreatment>>,
    discipline: Discipline,
}

/// Default delay of a reordered datagram.
const REORDER_BY: Duration = Duration::from_millis(10);

/// An option that exists in three forms: for both directions, and for each direction separately.
pub(super) struct Setting {
    /// The name, without the dashes and the direction.
    pub(super) name: &'static str,
    /// The placeholder for the value in the help.
    pub(super) value: &'static str,
    /// The help text: one line for `-h`, and after an empty line what `--help` adds.
    pub(super) help: &'static str,
    /// The value that is used if the option is given without one; `None` if a value is required.
    pub(super) default: Option<&'static str>,
    /// Parses a value and stores it.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), String>,
}

/// Every option, in the order of the help.
pub(super) const SETTINGS: &[Setting] = &[
    setting("delay", "DURATION", "One-way delay, such as 15ms", |settings, value| {
        settings.delay = duration(value)?;
        Ok(())
    }),
    setting(
        "jitter",
        "DURATION",
        "Vary the delay by up to this much, up or down",
        |settings, value| {
            settings.jitter.range = duration(value)?;
            Ok(())
        },
    ),
    flag("jitter-reorders", "Allow jitter to reorder datagrams", |settings, value| {
        settings.jitter.reorder_by_jitter = boolean(value)?;
        Ok(())
    }),
    setting(
        "tick",
        "DURATION",
        "Deliver datagrams only at multiples of this time, such as 4ms",
        |settings, value| {
            settings.tick = Some(duration(value)?);
            Ok(())
        },
    ),
    setting("rate", "RATE", "Bottleneck rate, such as 10mbit", |settings, value| {
        settings.rate = Some(parse_rate(value).map_err(|error| error.to_string())?);
        Ok(())
    }),
    setting(
        "overhead",
        "BYTES",
        "Bytes that the bottleneck adds to each datagram (28 for IPv4)",
        |settings, value| {
            settings.overhead = number(value)?;
            Ok(())
        },
    ),
    setting(
        "queue",
        "COUNT",
        "Bottleneck queue limit in datagrams; excess datagrams are dropped",
        |settings, value| {
            settings.queue.packets = Some(number(value)?);
            Ok(())
        },
    ),
    setting(
        "queue-bytes",
        "SIZE",
        "Bottleneck queue limit in bytes, such as 64KiB",
        |settings, value| {
            settings.queue.bytes = Some(size(value)?);
            Ok(())
        },
    ),
    setting(
        "discipline",
        "NAME",
        "Queueing discipline: drop-tail, codel, codel-ecn, or dualpi2\n\n\
         codel-ecn marks ECN-capable datagrams with CE where codel drops them; dualpi2 marks only ECT(1) (L4S).",
        |settings, value| {
            settings.discipline = discipline(value)?;
            Ok(())
        },
    ),
    setting(
        "mark-above",
        "DURATION",
        "Mark ECN-capable datagrams with CE if they wait longer than this",
        |settings, value| {
            settings.mark_above = Some(duration(value)?);
            Ok(())
        },
    ),
    setting("loss", "PROBABILITY", "Random loss, such as 30% or 0.3", |settings, value| {
        settings.loss = Some(probability(value)?);
        Ok(())
    }),
    setting("loss-run", "COUNT", "Maximum number of random losses in a row", |settings, value| {
        settings.loss_run = Some(number(value)?);
        Ok(())
    }),
    setting(
        "burst",
        "PROBABILITY:COUNT",
        "Loss bursts: the probability that a burst begins, and its maximum length",
        |settings, value| {
            let (start, longest) = pair(value, "a probability and a number such as 1%:8")?;
            settings.burst = Some((probability(start)?, number(longest)?));
            Ok(())
        },
    ),
    setting(
        "gilbert-elliott",
        "P:R:GOOD:BAD",
        "Gilbert-Elliott loss: P(good to bad), P(bad to good), loss when good and bad",
        |settings, value| {
            let parts: Vec<_> = value.split(':').map(probability).collect::<Result<_, _>>()?;
            let parts = parts.try_into().map_err(|_| {
                format!("{value:?} is not four probabilities such as 1%:30%:0%:50%")
            })?;
            settings.gilbert_elliott = Some(parts);
            Ok(())
        },
    ),
    setting(
        "loss-list",
        "NUMBER,...",
        "Drop exactly these datagrams, counted from 1",
        |settings, value| {
            settings.listed = value.split(',').map(number).collect::<Result<_, _>>()?;
            Ok(())
        },
    ),
    setting("loss-for", "DURATION", "Length of the loss period", |settings, value| {
        settings.loss_for = Some(duration(value)?);
        Ok(())
    }),
    setting(
        "loss-after",
        "DURATION",
        "Start the losses this long after the first datagram",
        |settings, value| {
            settings.loss_after = Some(duration(value)?);
            Ok(())
        },
    ),
    setting(
        "loss-after-bytes",
        "[WAY:]SIZE",
        "Start the losses after SIZE bytes to the client; WAY can also be to-server",
        |settings, value| {
            settings.loss_after_bytes = Some(bytes_of_way(value)?);
            Ok(())
        },
    ),
    setting(
        "reorder",
        "PROBABILITY",
        "Probability of delaying a datagram so that later datagrams overtake it",
        |settings, value| {
            settings.reorder.probability = probability(value)?;
            Ok(())
        },
    ),
    setting(
        "reorder-by",
        "DURATION",
        "Delay of reordered datagrams [default: 10ms]",
        |settings, value| {
            settings.reorder.by = duration(value)?;
            Ok(())
        },
    ),
    setting(
        "duplicate",
        "PROBABILITY",
        "Probability of delivering a datagram twice",
        |settings, value| {
            settings.duplicate = probability(value)?;
            Ok(())
        },
    ),
    setting(
        "corrupt",
        "PROBABILITY",
        "Probability of delivering a datagram with one byte changed",
        |settings, value| {
            settings.corrupt.probability = probability(value)?;
            Ok(())
        },
    ),
    setting(
        "corrupt-within",
        "COUNT",
        "Change one of the first COUNT bytes only",
        |settings, value| {
            settings.corrupt.within = Some(number(value)?);
            Ok(())
        },
    ),
    setting(
        "mtu",
        "BYTES[@TIME],...",
        "Drop larger UDP payloads; SIZE@TIME applies from TIME: 1472,1300@2s,none@5s",
        |settings, value| {
            let (mtu, steps) = steps(value, "1300@2s", largest_payload)?;
            (settings.mtu, settings.mtu_steps) = (mtu.flatten(), steps);
            Ok(())
        },
    ),
    setting(
        "ecn",
        "WHAT[@TIME],...",
        "Treatment of the ECN field: kept, cleared, to-ect1, to-ce, or dropped\n\n\
         dropped discards all ECN-capable datagrams. With @TIME, a treatment begins then, such as kept,cleared@2s.",
        |settings, value| {
            let (ecn, steps) = steps(value, "cleared@2s", ecn_treatment)?;
            (settings.ecn, settings.ecn_steps) = (ecn.unwrap_or_default(), steps);
            Ok(())
        },
    ),
];

type Set = fn(&mut Settings, &str) -> Result<(), String>;

const fn setting(name: &'static str, value: &'static str, help: &'static str, set: Set) -> Setting {
    Setting { name, value, help, default: None, set }
}

const fn flag(name: &'static str, help: &'static str, set: Set) -> Setting {
    Setting { name, value: "BOOL", help, default: Some("true"), set }
}

impl Settings {
    /// Returns the network conditions that the settings describe.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting requires another one in order to have an effect.
    pub(super) fn conditions(&self) -> Result<Conditions, String> {
        let window = self.window()?;
        let models = self.loss_models()?;
        if models.is_empty() && window != Window::Always {
            return Err("a loss period is set, but no loss: \
                        add --loss, --burst, --gilbert-elliott or --loss-list"
                .to_owned());
        }
        let mut reorder = self.reorder;
        if reorder.by.is_zero() {
            reorder.by = REORDER_BY;
        }
        Ok(Conditions {
            delay: self.delay,
            jitter: self.jitter,
            tick: self.tick,
            rate: self.rate,
            overhead: self.overhead,
            queue: self.queue,
            mark_above: self.mark_above,
            loss: models.into_iter().map(|model| LossRule { model, window }).collect(),
            reorder,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            mtu: self.mtu,
            mtu_steps: self.mtu_steps.clone(),
            ecn: self.ecn,
            ecn_steps: self.ecn_steps.clone(),
            discipline: self.discipline,
            ..Conditions::default()
        })
    }

    fn loss_models(&self) -> Result<Vec<LossModel>, String> {
        let mut models = Vec::new();
        match (self.loss, self.loss_run) {
            (Some(probability), Some(maximum_run)) => {
                models.push(LossModel::RandomCapped { probability, maximum_run });
            }
            (Some(probability), None) => models.push(LossModel::Random { probability }),
            (None, Some(_)) => return Err("--loss-run has no effect without --loss".to_owned()),
            (None, None) => {}
        }
        if let Some((start, maximum_run)) = self.burst {
            models.push(LossModel::Burst { start, maximum_run });
        }
        if let Some([good_to_bad, bad_to_good, loss_in_good, loss_in_bad]) = self.gilbert_elliott {
            models.push(LossModel::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
            });
        }
        if !self.listed.is_empty() {
            models.push(LossModel::List { numbers: self.listed.clone() });
        }
        Ok(models)
    }

    fn window(&self) -> Result<Window, String> {
        let length = self.loss_for;
        match (self.loss_after_bytes, self.loss_after) {
            (Some(_), Some(_)) => {
                Err("losses can begin after a time (--loss-after) or after a number of bytes \
                     (--loss-after-bytes), not both"
                    .to_owned())
            }
            (Some((way, bytes)), None) => Ok(Window::AfterBytes { way, bytes, length }),
            (None, None) if length.is_none() => Ok(Window::Always),
            (None, after) => {
                Ok(Window::FromFirstDatagram { after: after.unwrap_or_default(), length })
            }
        }
    }
}

fn duration(value: &str) -> Result<Duration, String> {
    parse_duration(value).map_err(|error| error.to_string())
}

fn probability(value: &str) -> Result<Probability, String> {
    parse_probability(value).map_err(|error| error.to_string())
}

fn size(value: &str) -> Result<u64, String> {
    parse_size(value).map_err(|error| error.to_string())
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.trim().parse().map_err(|_| format!("{value:?} is not a number in the allowed range"))
}

/// The initial value, if there is one, and later values with their start times, in ascending order.
/// `example` shows how to write the later values.
type Steps<T> = (Option<T>, Vec<Step<T>>);

fn steps<T>(
    value: &str,
    example: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Steps<T>, String> {
    let mut steps = Vec::new();
    let mut first = None;
    for (place, part) in value.split(',').enumerate() {
        match part.split_once('@') {
            None if place == 0 => first = Some(parse(part.trim())?),
            None => return Err(format!("{part:?} has no time; write it as in {example}")),
            Some((text, time)) => {
                steps.push(Step { after: duration(time)?, value: parse(text.trim())? });
            }
        }
    }
    if !steps.is_sorted_by(|one, next| one.after < next.after) {
        return Err("each time must be later than the previous one".to_owned());
    }
    Ok((first, steps))
}

fn largest_payload(text: &str) -> Result<Option<usize>, String> {
    match text {
        "none" => Ok(None),
        size => number(size).map(Some),
    }
}

fn ecn_treatment(text: &str) -> Result<EcnTreatment, String> {
    match text {
        "kept" => Ok(EcnTreatment::Kept),
        "cleared" => Ok(EcnTreatment::Cleared),
        "to-ect1" => Ok(EcnTreatment::ToEct1),
        "to-ce" => Ok(EcnTreatment::ToCe),
        "dropped" => Ok(EcnTreatment::Dropped),
        _ => Err(format!("{text:?} is not one of kept, cleared, to-ect1, to-ce, dropped")),
    }
}

fn discipline(text: &str) -> Result<Discipline, String> {
    match text.trim() {
        "drop-tail" => Ok(Discipline::DropTail),
        "codel" => Ok(Discipline::CoDel(CoDel::default())),
        "codel-ecn" => Ok(Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() })),
        "dualpi2" => Ok(Discipline::DualPi2(DualPi2::default())),
        _ => Err(format!("{text:?} is not one of drop-tail, codel, codel-ecn, dualpi2")),
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{value:?} is neither true nor false"))
}

fn pair<'a>(value: &'a str, expected: &str) -> Result<(&'a str, &'a str), String> {
    value.split_once(':').ok_or_else(|| format!("{value:?} is not {expected}"))
}

fn bytes_of_way(value: &str) -> Result<(Way, u64), String> {
    match value.split_once(':') {
        None => Ok((Way::ToClient, size(value)?)),
        Some(("to-client", bytes)) => Ok((Way::ToClient, size(bytes)?)),
        Some(("to-server", bytes)) => Ok((Way::ToServer, size(bytes)?)),
        Some((way, _)) => Err(format!("{way:?} is neither to-client nor to-server")),
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
