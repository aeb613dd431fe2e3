//! `melisma speak`: text to audio by a language model, written as soon as it is final.

mod clip;
mod list;

use std::time::Duration;

use indicatif::HumanDuration;
use melisma::config::Policy;
use melisma::llama;
use melisma::runtime::device::Device;
use melisma::runtime::memory::Needed;
use melisma::snac::{Config, DecodeOptions, Engine, Rounding};
use melisma::speak::{Delivery, Draw, Estimate, Format, Opening, Speaker};
use melisma::text::{duration, realtime};
use melisma::{Context, Result};

use crate::args::SpeakArgs;
use crate::codec::{Codec, loaded_bytes};
use crate::decode::noise;
use crate::session::Session;

/// Work that takes longer is announced.
const LONG: Duration = Duration::from_secs(60);

pub fn run(session: &Session, args: &SpeakArgs) -> Result<()> {
    let _span = tracing::info_span!("speak").entered();
    match &args.texts {
        Some(path) => list::run(session, args, path),
        None if args.print_words => clip::print_words(session, args),
        None => clip::run(session, args),
    }
}

/// A voice model, opened with its codec.
struct Opened<'a> {
    context: &'a Context,
    /// What names the codec.
    source: String,
    codec: Codec,
    speaker: Speaker,
    delivery: Delivery,
}

impl<'a> Opened<'a> {
    fn open(session: &'a Session, args: &SpeakArgs) -> Result<Self> {
        let rounding = Policy::new(&session.config).rounding().map_err(|error| error.at("speak"))?;
        let decoding = DecodeOptions::default().with_noise(noise(&args.noise)?).with_rounding(rounding);
        let of_weights = match args.precision.as_deref() {
            Some("bf16") => Rounding::Bf16,
            Some(_) => Rounding::Off,
            None => rounding,
        };
        let context = session.context()?;
        let source = args.model.as_deref().unwrap_or_else(|| Speaker::codec_of(&args.voice_model));
        let weights = llama::Model::needed(&args.voice_model, context.device());
        let needed = needed(source, context.device()) + weights;
        session.require(context.device(), "speaking with this voice model and its codec", needed)?;
        let codec = Codec::open_in(context, source)?;
        let opening = Opening::default().with_rounding(of_weights).with_config(session.speak.clone());
        let speaker = Speaker::open_as_in(context, &args.voice_model, codec.model.clone(), opening)?;
        if speaker.format().codec.is_none() && codec.model.is_builtin() {
            session.say(&format!(
                "warning: {} does not say which codec it was trained with; if it is not {}, it speaks noise\n\
                 hint: name its codec with --model",
                args.voice_model.display(),
                source
            ));
        }
        let delivery = Delivery { decoding, speed: args.speed, ..delivery(args, speaker.format()) };
        Ok(Self { context, source: source.to_owned(), codec, speaker, delivery })
    }
}

/// Says how fast texts will be spoken, if that is slower than they are heard or takes long. `what` is spoken at once.
fn announce(session: &Session, estimate: &Estimate, what: &str) {
    if estimate.realtime < 1.0 || estimate.most > LONG {
        session.say(&announcement(estimate, what));
    }
}

fn announcement(estimate: &Estimate, what: &str) -> String {
    let work = Duration::try_from_secs_f64(1.0 / estimate.realtime).unwrap_or(Duration::MAX);
    let speed = realtime(estimate.realtime, 1.0);
    let at_once = match estimate.n_at_once {
        1 => String::new(),
        n => format!(" for {n} {what} at once"),
    };
    let (work, most) = (duration::show(work), HumanDuration(estimate.most));
    format!("note: this model speaks at {speed} here{at_once}: {work} for a second of speech, at most {most} in all")
}

/// Returns the memory of the codec: its weights and its engine. One that cannot be read counts as 0, because opening
/// it fails later.
fn needed(model: &str, device: &Device) -> Needed {
    let engine = Config::open(model).map(|config| Engine::needed(&config, device, 1)).unwrap_or_default();
    Needed { host: loaded_bytes(model) + engine.host, ..engine }
}

fn delivery(args: &SpeakArgs, format: &Format) -> Delivery {
    let flags = &args.sampler;
    let mut settings = format.settings();
    let sample = &mut settings.sample;
    sample.repetition_penalty = flags.repetition_penalty.unwrap_or(sample.repetition_penalty);
    sample.temperature = flags.temperature.unwrap_or(sample.temperature);
    sample.top_k = flags.top_k.unwrap_or(sample.top_k);
    sample.top_p = flags.top_p.unwrap_or(sample.top_p);
    sample.min_p = flags.min_p.unwrap_or(sample.min_p);
    settings.penalty_window = flags.penalty_window.unwrap_or(settings.penalty_window);
    settings.draw = if flags.free { Draw::Free } else { Draw::Frames };
    settings.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_long_speech_is_announced_in_words() {
        let said = |realtime, n_at_once, most| {
            let step = Duration::from_millis(450);
            announcement(&Estimate { n_at_once, step, realtime, most: Duration::from_secs(most) }, "texts")
        };
        assert_eq!(
            said(0.027, 1, 300),
            "note: this model speaks at 0.027x realtime here: 37.04s for a second of speech, at most 5 minutes in all"
        );
        assert_eq!(
            said(12.5, 32, 7200),
            "note: this model speaks at 12x realtime here for 32 texts at once: 80.00ms for a second of speech, \
             at most 2 hours in all"
        );
    }
}
