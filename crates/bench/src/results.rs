//! What a run of the bench found.

use serde::Serialize;

use crate::{Result, load::Load, samples::Summary};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub family: &'static str,
    pub name: String,
    pub side: Side,
    #[serde(flatten)]
    pub measure: Measure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Service,
    Yardstick,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measure {
    Latency(Summary),
    Load(Load),
    Amount { value: f64, unit: &'static str },
    NotAvailable { why: String },
}

impl Row {
    pub fn load(family: &'static str, name: String, side: Side, load: Result<Load>) -> Self {
        let measure = load.map_or_else(
            |error| Measure::NotAvailable {
                why: error.to_string(),
            },
            Measure::Load,
        );
        Self {
            family,
            name,
            side,
            measure,
        }
    }

    pub fn amount(family: &'static str, name: &str, value: f64, unit: &'static str) -> Self {
        Self {
            family,
            name: name.to_owned(),
            side: Side::Service,
            measure: Measure::Amount { value, unit },
        }
    }
}
