//! `melisma dataset build`.

use melisma::dataset::{self, Lengths, Options, Request, StoreKind, Tail, Techniques};
use melisma::mel::OutputPrecision;
use melisma::text::duration;
use melisma::{Device, Error, Result};

use super::{report, watch};
use crate::args::BuildArgs;
use crate::mel;
use crate::session::Session;

/// Rows in a rehearsal.
const REHEARSED: usize = 20_000;

pub fn run(session: &Session, args: &BuildArgs) -> Result<()> {
    let _span = tracing::info_span!("dataset build").entered();
    let context = session.context()?;
    let segment = duration::parse(&args.segment)?;
    let hop = args.segment_hop.as_deref().map_or(Ok(segment), duration::parse)?;
    let tail = if args.drop_tail { Tail::Drop } else { Tail::Pad };
    let lengths = Lengths::new(args.files.min_seconds, args.files.max_seconds)?;
    let mut options =
        Options::new(mel::config(&args.mel)?, segment)?.with_hop(hop)?.with_tail(tail).with_lengths(lengths);
    options = options.with_preparation(args.files.preparation()?);
    match args.dtype.as_deref() {
        Some("f16") => options.mel.dtype = OutputPrecision::F16,
        Some(_) => options.mel.dtype = OutputPrecision::F32,
        None => {}
    }
    let techniques = techniques(args)?;
    if args.test_gpu_pipeline {
        let (device, budget) = (context.device(), context.budget());
        if let Device::Cpu(_) = device {
            session.say("note: no GPU is used; this measures the pipeline on the CPU");
        }
        let rehearsal = dataset::rehearse(device, budget, &options, &techniques, REHEARSED)?;
        return session.print(device, || report::rehearsal_text(&rehearsal), report::rehearsal_json(&rehearsal));
    }
    let place = args.output.as_deref().ok_or_else(|| Error::invalid("a build needs an output"))?;
    let inputs = watch::find(session, &args.inputs, &args.files)?;
    let (shard, n_shards) = watch::shard(args.shard.as_deref())?;
    let request = Request::new_in(context, &inputs, place, options)
        .with_shard(shard, n_shards)
        .with_store(StoreKind::choose(args.store.as_deref(), place)?)
        .with_existing(session.existing)
        .with_max_failures(if args.on_error == "fail" { Some(0) } else { args.files.max_failures })
        .with_threads(session.config.threads.value.count())
        .with_techniques(techniques);
    let outcome = watch::build(session, &request)?;
    watch::report_failures(session, &outcome, place);
    session.print(context.device(), || report::text(&outcome), report::json(&outcome, &inputs.skipped))
}

fn techniques(args: &BuildArgs) -> Result<Techniques> {
    let mut techniques = Techniques::default();
    args.technique.iter().try_for_each(|text| techniques.set(text))?;
    techniques.buffers_in_flight = args.buffers_in_flight.map_or(techniques.buffers_in_flight, usize::from);
    techniques.segments_per_buffer = args.segments_per_buffer.map(|n| n as usize).or(techniques.segments_per_buffer);
    techniques.autosize_gpu_batch = args.autosize_gpu_batch.unwrap_or(techniques.autosize_gpu_batch);
    Ok(techniques)
}
