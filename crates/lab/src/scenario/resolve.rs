//! Resolves the file as written into a scenario.

mod endpoint;
mod expect;
mod flow;
mod loss;
mod network;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::error::Fault;
use super::file::{Level, PropertyOff, ReferenceFile, ScenarioFile, VariantFile};
use super::settings::Overlay;
use super::{CONTROLLERS, Reference, Scenario, Setup, Variant};
use crate::setup::Turns;

/// The name of the variant that the file's own settings describe.
const BASE: &str = "base";
/// The default number of seeds of a scenario.
const SEEDS: u64 = 20;
/// The default time limit of a scenario.
const LIMIT: Duration = Duration::from_secs(60);
/// The properties that can be turned off: S1 to S29, L1 to L12.
const SAFETY_PROPERTIES: u32 = 29;
const LIVENESS_PROPERTIES: u32 = 12;

pub(super) fn scenario(
    name: &str,
    path: &str,
    file: &ScenarioFile,
    folder: &Path,
) -> Result<Scenario, Fault> {
    let controllers = controllers(file)?;
    let variants = variants(file, &controllers, folder)?;
    let references = references(file, &variants)?;
    Ok(Scenario {
        name: name.to_owned(),
        file: path.to_owned(),
        summary: file.summary.clone(),
        references,
        seeds: at_least_one(file.seeds.as_ref(), "seeds")?.unwrap_or(SEEDS),
        controllers,
        variants,
    })
}

fn controllers(file: &ScenarioFile) -> Result<Vec<String>, Fault> {
    let Some(list) = &file.controllers else {
        return Ok(CONTROLLERS.map(str::to_owned).to_vec());
    };
    if list.get_ref().is_empty() {
        return Err(Fault::new(list.span(), "at least one controller must be listed"));
    }
    let mut controllers = Vec::new();
    for name in list.get_ref() {
        let known = controller(name)?;
        if controllers.contains(&known) {
            return Err(Fault::new(name.span(), format!("{known} is listed twice")));
        }
        controllers.push(known);
    }
    Ok(controllers)
}

/// Returns the name of a controller, if it exists.
fn controller(name: &Spanned<String>) -> Result<String, Fault> {
    match CONTROLLERS.contains(&name.get_ref().as_str()) {
        true => Ok(name.get_ref().clone()),
        false => Err(Fault::unknown(name.span(), "controller", name.get_ref(), &CONTROLLERS)),
    }
}

fn variants(
    file: &ScenarioFile,
    controllers: &[String],
    folder: &Path,
) -> Result<Vec<Variant>, Fault> {
    let base = file.level();
    let mut variants = Vec::new();
    if file.base.as_ref().is_none_or(|base| *base.get_ref()) {
        let setup = setup(&base, folder)?;
        let expect = |name: &String| {
            let bounds = file.expect.of(name);
            expect::expectations(&bounds, &setup).map(|bounds| (name.clone(), bounds))
        };
        let expectations = controllers.iter().map(expect).collect::<Result<BTreeMap<_, _>, _>>()?;
        variants.push(Variant { name: BASE.to_owned(), share: 1.0, setup, expectations });
    } else if let (true, Some(base)) = (file.variant.is_empty(), &file.base) {
        return Err(Fault::new(base.span(), "a file with base = false needs at least one variant"));
    }
    for variant in &file.variant {
        let name = variant.name.get_ref();
        if name.is_empty() || variants.iter().any(|other: &Variant| other.name == *name) {
            let message =
                format!("{name:?} is not a unique name: every variant needs its own name");
            return Err(Fault::new(variant.name.span(), message));
        }
        let mut level = base.clone();
        level.overlay(&variant.level());
        variants.push(overlaid(file, variant, &level, controllers, folder)?);
    }
    Ok(variants)
}

/// Creates a variant from `level`, whose settings override those of the base.
fn overlaid(
    file: &ScenarioFile,
    variant: &VariantFile,
    level: &Level,
    controllers: &[String],
    folder: &Path,
) -> Result<Variant, Fault> {
    let setup = setup(level, folder)?;
    let mut expectations = BTreeMap::new();
    for name in controllers {
        let mut bounds = match variant.own_expectations {
            true => Default::default(),
            false => file.expect.of(name),
        };
        bounds.overlay(&variant.expect.of(name));
        expectations.insert(name.clone(), expect::expectations(&bounds, &setup)?);
    }
    let share = match &variant.share {
        None => 1.0,
        Some(share) if share.get_ref().0.get() > 0.0 => share.get_ref().0.get(),
        Some(share) => {
            return Err(Fault::new(share.span(), "the share of a variant must be above 0"));
        }
    };
    Ok(Variant { name: variant.name.get_ref().clone(), share, setup, expectations })
}

fn setup(level: &Level, folder: &Path) -> Result<Setup, Fault> {
    let (flows, extra_delays): (Vec<_>, Vec<_>) = flow::flows(level)?.into_iter().unzip();
    Ok(Setup {
        limit: level.limit.map_or(LIMIT, |limit| limit.0),
        network: network::link(level, &extra_delays, folder)?,
        flows,
        properties_off: properties_off(level.properties_off.as_deref().unwrap_or_default())?,
        turns: Turns::default(),
    })
}

fn properties_off(list: &[PropertyOff]) -> Result<Vec<(String, String)>, Fault> {
    let safety = (1..=SAFETY_PROPERTIES).map(|number| format!("S{number}"));
    let known: Vec<_> =
        safety.chain((1..=LIVENESS_PROPERTIES).map(|number| format!("L{number}"))).collect();
    let checked = |off: &PropertyOff| {
        let (property, because) = (off.property.get_ref(), off.because.get_ref());
        if !known.contains(property) {
            let message = format!(
                "unknown property {property} (known: S1 to S{SAFETY_PROPERTIES}, L1 to L{LIVENESS_PROPERTIES})"
            );
            return Err(Fault::new(off.property.span(), message));
        }
        if because.trim().is_empty() {
            return Err(Fault::new(off.because.span(), "a reason is required"));
        }
        Ok((property.clone(), because.clone()))
    };
    list.iter().map(checked).collect()
}

fn references(file: &ScenarioFile, variants: &[Variant]) -> Result<Vec<Reference>, Fault> {
    let names: Vec<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let resolve = |reference: &ReferenceFile| {
        if let Some(variant) = &reference.variant
            && !names.contains(&variant.get_ref().as_str())
        {
            return Err(Fault::unknown(variant.span(), "variant", variant.get_ref(), &names));
        }
        Ok(Reference {
            figure: reference.figure.clone(),
            source: reference.source.clone(),
            controller: reference.controller.as_ref().map(controller).transpose()?,
            variant: reference.variant.as_ref().map(|variant| variant.get_ref().clone()),
            time: reference.time.map(|time| time.0),
        })
    };
    file.reference.iter().map(resolve).collect()
}

/// Returns a number that must not be zero.
fn at_least_one<T: Copy + Default + PartialEq>(
    number: Option<&Spanned<T>>,
    what: &str,
) -> Result<Option<T>, Fault> {
    match number {
        Some(number) if *number.get_ref() == T::default() => {
            Err(Fault::new(number.span(), format!("{what} must be at least 1")))
        }
        number => Ok(number.map(|number| *number.get_ref())),
    }
}
