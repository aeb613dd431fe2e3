//! The times of one step.

use std::time::Duration;

use serde_json::Value;

use super::{Metrics, Stage};
use crate::event::Field;
use crate::log::{Level, Log};

/// Collects the stages of one step of an engine.
#[derive(Debug)]
pub struct Stages<'a> {
    /// Where they are counted.
    pub metrics: &'a Metrics,
    spent: Vec<(Stage, Duration)>,
}

impl<'a> Stages<'a> {
    /// Creates it before the step.
    pub fn new(metrics: &'a Metrics) -> Self {
        Self { metrics, spent: Vec::new() }
    }

    /// Adds the time of a stage.
    pub fn add(&mut self, stage: Stage, time: Duration) {
        self.metrics.stage(stage, time);
        self.spent.push((stage, time));
    }

    /// Writes all stages as one event, for those who want every detail.
    pub(crate) fn tell(self, log: &Log, [n_streams, n_frames]: [usize; 2]) {
        let head: [(Field, Value); 3] =
            [(Field::Event, "chunk".into()), (Field::Streams, n_streams.into()), (Field::Frames, n_frames.into())];
        let stages = self.spent.into_iter().filter_map(|(stage, time)| Some((stage.field()?, ms(time))));
        log.event(Level::Debug, head.into_iter().chain(stages));
    }
}

fn ms(time: Duration) -> Value {
    ((time.as_secs_f64() * 1e6).round() / 1e3).into()
}
