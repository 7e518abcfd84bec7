//! What a controller computes with, as events of namespace `clearway` tell it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::number::Decimal;

/// What a controller computes with, by the name that its specification gives it.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// In lower case.
    pub name: Box<str>,
    /// The unit of `value`.
    pub unit: FigureUnit,
    /// `None` if there is no such figure any more.
    pub value: Option<f64>,
}

/// The units of figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FigureUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Bits per second.
    BitsPerSecond,
}

type Figures<'a> = BTreeMap<Cow<'a, str>, Option<Decimal>>;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct ControllerData<'a> {
    #[serde(borrow)]
    bytes: Figures<'a>,
    #[serde(borrow)]
    milliseconds: Figures<'a>,
    #[serde(borrow)]
    bits_per_second: Figures<'a>,
}

impl ControllerData<'_> {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let units = [
            (FigureUnit::Bytes, &self.bytes),
            (FigureUnit::Milliseconds, &self.milliseconds),
            (FigureUnit::BitsPerSecond, &self.bits_per_second),
        ];
        let figures = units.into_iter().flat_map(|(unit, figures)| {
            figures.iter().map(move |(name, value)| Figure {
                name: name.as_ref().into(),
                unit,
                value: value.map(|value| value.0),
            })
        });
        figures.collect()
    }
}
