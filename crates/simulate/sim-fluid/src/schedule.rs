//! The schedule as it is carried out, for an observer: segments of constant rate, one flow at a
//! time.

use cavalcade_model::{FineInstant, FlowId};

use crate::Observer;

/// The segment of each flow that has begun but not ended.
#[derive(Clone, Debug)]
pub struct Segments {
    /// For each flow: its rate, and since when.
    open: Vec<(f64, FineInstant)>,
    active: Vec<u32>,
}

impl Segments {
    /// No flow of so many has begun.
    pub fn new(flows: usize) -> Self {
        Self { open: vec![(0.0, FineInstant::default()); flows], active: Vec::new() }
    }

    /// A flow has begun.
    pub fn begin(&mut self, flow: u32) {
        self.active.push(flow);
    }

    /// Ends the segments of all flows whose rate, which `rate_of` says, is no longer what it was.
    pub fn update(&mut self, rate_of: impl Fn(u32) -> f64, now: FineInstant, observer: &mut dyn Observer) {
        let open = &mut self.open;
        for &flow in &self.active {
            let rate = rate_of(flow);
            let (before, since) = open[flow as usize];
            if rate != before {
                if before > 0.0 && now > since {
                    observer.segment(FlowId(flow), since, now, before);
                }
                open[flow as usize] = (rate, now);
            }
        }
    }

    /// Ends the last segment of a finished flow.
    pub fn end(&mut self, flow: u32, now: FineInstant, observer: &mut dyn Observer) {
        let (rate, since) = std::mem::take(&mut self.open[flow as usize]);
        if rate > 0.0 && now > since {
            observer.segment(FlowId(flow), since, now, rate);
        }
        self.active.retain(|&other| other != flow);
    }
}
