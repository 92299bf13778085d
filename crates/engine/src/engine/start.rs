//! The start of a run: threads that read and merge the streams, and the loop over what they give.

use super::{
    Engine, EngineError, Summary,
    run::{Heads, Run},
};
use crate::{
    align::{Aligned, Input, ToTrace},
    pipeline::{Crew, Source},
    shard::Boundary,
    stream::{EventStream, StreamKey},
};
use transect_model::{
    table::TableSink,
    time::{Timestamp, Trace},
};

impl Engine {
    /// Reads every stream to its end and emits every table.
    pub fn run<S: EventStream + Send, C: ToTrace + Send>(
        self,
        inputs: Vec<Input<S, C>>,
        sink: &mut dyn TableSink,
    ) -> Result<Summary, EngineError> {
        let cut = self.window.cut();
        self.shard(inputs, cut, sink, |run, streams| run.finish(&streams))
    }

    /// Reads every stream up to `cut`, exclusive, and emits what is complete by then.
    ///
    /// The streams are those of the whole recording, in any order; each has to reach at least to
    /// its first event at or beyond the cut. [`Engine::resume`] goes on from what is given back, in
    /// this process or another. The rows of all shards, one after the other, are those of a single
    /// run, in the same order.
    pub fn run_until<S: EventStream + Send, C: ToTrace + Send>(
        self,
        inputs: Vec<Input<S, C>>,
        cut: Timestamp<Trace>,
        sink: &mut dyn TableSink,
    ) -> Result<Boundary, EngineError> {
        let cut = cut.get().min(self.window.cut());
        self.shard(inputs, cut, sink, |run, streams| run.cut(cut, &streams))
    }

    fn shard<S: EventStream + Send, C: ToTrace + Send, T>(
        mut self,
        mut inputs: Vec<Input<S, C>>,
        cut: i64,
        sink: &mut dyn TableSink,
        end: impl FnOnce(Run<'_>, Vec<Aligned<S, C>>) -> T,
    ) -> Result<T, EngineError> {
        self.topology.check().map_err(EngineError::Topology)?;
        let machines = self.topology.machines.len();
        if let Some(input) = inputs.iter().find(|i| i.key.machine.0 as usize >= machines) {
            return Err(EngineError::UnknownMachine(input.key));
        }
        inputs.sort_by_key(|input| input.key);
        let boundary = self.resume.take();
        let keys: Vec<StreamKey> = inputs.iter().map(|input| input.key).collect();
        if boundary.as_ref().is_some_and(|boundary| !boundary.fits(&keys)) {
            return Err(EngineError::OtherStreams);
        }
        let aligned = inputs.into_iter().enumerate().map(|(at, input)| {
            Aligned::new(input, boundary.as_ref().map(|boundary| boundary.place(at)), cut)
        });
        let streams: Vec<_> = aligned.collect();
        let crew = Crew::new(self.threads, streams.len());
        Ok(std::thread::scope(|scope| {
            let mut source = Source::start(scope, streams, crew, cut);
            let mut heads = Heads::new(keys.len());
            // The first portion opens all streams that have items.
            heads.open(source.portion().unwrap_or_default());
            let mut run = match boundary {
                Some(boundary) => Run::go_on(self, &keys, &heads, *boundary, sink),
                None => Run::new(self, &keys, &heads, sink),
            };
            while let Some(portion) = source.portion() {
                run.portion(portion, &mut heads, |batch| source.done(batch));
            }
            end(run, source.finish())
        }))
    }
}
