//! `melisma serve`: live decoding for many clients.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use melisma::config::{Layers, Sources};
use melisma::format::read_text;
use melisma::llama;
use melisma::runtime::device::Device;
use melisma::runtime::machine::{passed_listener, raise_file_limit};
use melisma::runtime::memory::Needed;
use melisma::snac::{Config, EncodeEngine, Engine, EngineOptions};
use melisma::speak::{Opening, Speaker};
use melisma::{Error, Result};
use melisma_server::batcher::{Batcher, CapacityCache, Setup};
use melisma_server::event::Field;
use melisma_server::metrics::Metrics;
use melisma_server::speakers::{self, Speakers, VoiceModel};
use melisma_server::upstream::{self, Upstream};
use melisma_server::{Decoder, Guard, Keyring, Level, Limits, Listen, Log, Server, Settings, Stopper, encoder, key};
use serde_json::json;

use crate::args::ServeArgs;
use crate::codec::{BUILTIN, Codec, loaded_bytes};
use crate::decode::rounding;
use crate::session::Session;
use crate::{build, interrupt, systemd, terminal};

const KEY_VARIABLE: &str = "MELISMA_API_KEY";
const UPSTREAM_KEY_VARIABLE: &str = "MELISMA_UPSTREAM_KEY";

pub fn run(session: &Session, args: &ServeArgs) -> Result<()> {
    let keys = keys(args)?;
    let guard = Guard { keys: keys.clone(), allow_hosts: args.allow_host.clone(), allow_origins: origins(args)? };
    let level = match (session.settings.quiet.value, session.settings.verbose.value) {
        (true, _) => Level::Error,
        (false, true) => Level::Debug,
        (false, false) => Level::Info,
    };
    let log = Log::new(level, |_, line| terminal::say(line));
    let threads = session.config.threads.value.count();
    let defaults = Limits::default();
    let listeners = args.max_streams.map_or(defaults.listeners, |n| defaults.listeners.min(n as usize));
    let limits = Limits { listeners, queue: session.serve.queue.value.0, ..defaults };
    let upstream = upstream(session, args)?;
    let voice_models = voice_models(args).map_err(|error| error.at("--voice-model"))?;
    let (listen, build, stopper) = (listen(args)?, build::info(), Stopper::default());
    let reloader = Arc::new(OnceLock::<Reloader>::new());
    take_signals(&stopper, &reloader, &log);
    let settings = Settings { listen, guard, limits, log: log.clone(), threads, upstream, build, stopper };
    // Each connection is an open file. Where the limit cannot be raised, fewer connections fit.
    let _ = raise_file_limit();
    let server = Server::bind(settings)?;
    let url = format!("http://{}", server.address());
    session.say(&url);
    session.note_unread_config();
    session.warn_of_misspelt_variables();
    warn_of_open_files(session, args);
    if args.upstream.is_some() && args.model.as_deref() == Some(BUILTIN) {
        session.say(&format!(
            "warning: --upstream with --model {BUILTIN}: a language model such as Orpheus speaks in codes of its own \
             codec, which this one turns into noise"
        ));
    }
    // This is the only call of `set`.
    let _ = reloader.set(Reloader {
        metrics: server.metrics(),
        keys,
        key_file: args.api_key_file.clone(),
        upstream: server.upstream().zip(args.upstream.clone()),
        sources: session.sources.clone(),
        log: log.clone(),
    });
    server.run(|metrics, stopper| load(session, (args, &voice_models), (metrics, stopper), &log))?;
    let device = session.context()?.device().to_string();
    session.print(device, String::new, json!({ "address": url }))
}

/// Answers signals before anybody can reach the server: from then on they drain it, or make it read its files again.
fn take_signals(stopper: &Stopper, reloader: &Arc<OnceLock<Reloader>>, log: &Log) {
    let (stopper, reloader, log) = (stopper.clone(), Arc::clone(reloader), log.clone());
    interrupt::on_hangup(move || {
        if let Some(reloader) = reloader.get() {
            reloader.reload();
        }
    });
    // A reader that blocks must not block the server, so the log writes this line.
    interrupt::on_first_signal(move || {
        systemd::tell("STOPPING=1");
        let line = "draining: open streams are finished; a second signal ends them";
        stopper.drain_telling(|| log.line(Level::Info, line));
    });
}

fn load(
    session: &Session,
    (args, voice_models): (&ServeArgs, &[VoiceModel]),
    (metrics, stopper): (&Arc<Metrics>, &Stopper),
    log: &Log,
) -> Result<Decoder> {
    let context = session.context()?;
    let model = args.model.as_deref().unwrap_or(BUILTIN);
    let streams = session.serve.streams.value;
    let max_streams = streams.slots(context.device(), args.max_streams.map(|n| n as usize));
    let needed = required_memory(model, context.device(), max_streams)
        + voices_memory(voice_models, context.device(), max_streams);
    session.require(context.device(), "serving these models", needed)?;
    let codec = Codec::open_in(context, model)?;
    let folder = session.config.cache_dir.value.as_deref();
    let cache = folder.map(|folder| CapacityCache::of(folder, &codec.model, context.device(), max_streams));
    let options = EngineOptions::new(max_streams).with_rounding(rounding(session)?);
    let setup = Setup {
        queue: context.queue(),
        budget: context.budget(),
        options,
        sizing: streams.sizing(cache),
        metrics: Arc::clone(metrics),
        log: log.clone(),
        stopper: stopper.clone(),
    };
    let batcher = Batcher::start(&codec.model, setup)?;
    let budget = context.budget();
    let encoder = encoder::start(&codec.model, &context.device().queue(budget)?, budget, metrics)?;
    let decoding = speakers::Decoding::like(&batcher, options, metrics, stopper);
    let speakers = speakers(session, (voice_models, decoding), &codec, log)?;
    systemd::tell("READY=1");
    Ok(Decoder { model: codec.model, batcher, encoder, speakers, device: context.device().clone() })
}

/// Opens the voice models, which speak the frames of `codec`.
fn speakers(
    session: &Session,
    (models, decoding): (&[VoiceModel], speakers::Decoding),
    codec: &Codec,
    log: &Log,
) -> Result<Vec<Speakers>> {
    if models.is_empty() {
        return Ok(Vec::new());
    }
    let context = session.context()?;
    let opening = Opening::default().with_rounding(rounding(session)?).with_config(session.speak.clone());
    let sizing = session.serve.speakers.value;
    let loading = speakers::Loading { context, codec: &codec.model, opening, sizing, decoding, log: log.clone() };
    speakers::open_all(models, loading)
}

/// Returns the memory of voice models, and of the codecs that they bring.
fn voices_memory(models: &[VoiceModel], device: &Device, max_streams: usize) -> Needed {
    let one = |model: &VoiceModel| llama::Model::needed(&model.folder, device) + own_codec(model, device, max_streams);
    models.iter().map(one).fold(Needed::default(), |all, one| all + one)
}

/// Returns the memory of the codec that a voice model brings.
fn own_codec(model: &VoiceModel, device: &Device, max_streams: usize) -> Needed {
    let name = Speaker::codec_of(&model.folder);
    match (name == BUILTIN, Config::open(name)) {
        (false, Ok(config)) => {
            let engine = Engine::needed(&config, device, max_streams);
            Needed { host: loaded_bytes(name) + engine.host, ..engine }
        }
        // It shares that of the server; one that cannot be read fails later.
        _ => Needed::default(),
    }
}

/// Returns the memory of the model, of the decoder for `max_streams` streams, and of the encoder.
fn required_memory(model: &str, device: &Device, max_streams: usize) -> Needed {
    let loaded = loaded_bytes(model);
    // A model that cannot be read counts as nothing, because opening it fails later.
    let Ok(config) = Config::open(model) else { return Needed { host: loaded, device: 0 } };
    let decoder = Engine::needed(&config, device, max_streams);
    let encoder = EncodeEngine::needed(&config, device, encoder::max_clips(device));
    Needed { host: loaded, device: 0 } + decoder + encoder
}

/// What a running server reads again.
struct Reloader {
    metrics: Arc<Metrics>,
    keys: Keyring,
    key_file: Option<PathBuf>,
    /// The language model and its URL.
    upstream: Option<(Arc<Upstream>, String)>,
    sources: Sources,
    log: Log,
}

impl Reloader {
    /// Reads the keys and the voices again. What cannot be read stays as it is.
    fn reload(&self) {
        let keys = self.key_file.as_deref().map(|path| {
            self.keys.read_again(path)?;
            Ok(self.keys.count())
        });
        let voices = self.upstream.as_ref().map(|(upstream, url)| {
            let config = Layers::read(&self.sources)?.section()?;
            upstream.set_voices(upstream::Settings::new(url, &config)?)
        });
        if keys.is_none() && voices.is_none() {
            self.log.line(Level::Warn, "warning: nothing to reload: there is neither a file of keys nor an upstream");
        }
        for (field, read) in [(Field::Keys, keys), (Field::Voices, voices)] {
            match read {
                None => {}
                Some(Ok(n)) => self.log.event(Level::Info, [(Field::Event, "reloaded".into()), (field, json!(n))]),
                Some(Err(error)) => {
                    self.metrics.reload_failed();
                    let message = format!("the old {} stay: {error}", field.name());
                    let fields = [(Field::Event, "reload_failed".into()), (Field::Message, message.into())];
                    self.log.event(Level::Error, fields);
                }
            }
        }
    }
}

/// Returns the socket that the service manager passed on, or the address.
fn listen(args: &ServeArgs) -> Result<Listen> {
    match passed_listener()? {
        Some(socket) => Ok(Listen::Socket(socket)),
        None => address(args).map(Listen::Address),
    }
}

fn address(args: &ServeArgs) -> Result<SocketAddr> {
    let wrong = || Error::invalid(format!("--host {}: unknown address", args.host)).with_hint("use an IP address");
    let mut found = (args.host.as_str(), args.port).to_socket_addrs().map_err(|_| wrong())?;
    found.next().ok_or_else(wrong)
}

/// Returns the voice models that run here: the built-in one where neither others nor an upstream are named.
fn voice_models(args: &ServeArgs) -> Result<Vec<VoiceModel>> {
    match args.voice_model.is_empty() {
        true if args.upstream.is_none() => Ok(VoiceModel::builtin().into_iter().collect()),
        _ => VoiceModel::parse_all(&args.voice_model),
    }
}

/// Returns the language model behind speech. Its codes belong to one codec, so the codec has to be named.
fn upstream(session: &Session, args: &ServeArgs) -> Result<Option<Upstream>> {
    let Some(url) = &args.upstream else { return Ok(None) };
    if args.model.is_none() {
        return Err(Error::invalid("--upstream without --model: its tokens are codes of one codec")
            .with_hint("name the codec that the language model was trained with, as in --model snac_24khz/"));
    }
    let key = read_key(args.upstream_key_file.as_deref(), UPSTREAM_KEY_VARIABLE)?;
    Upstream::new(upstream::Settings { key, ..upstream::Settings::new(url, &session.upstream)? }).map(Some)
}

/// Warns of files of keys that every user of the machine can read.
fn warn_of_open_files(session: &Session, args: &ServeArgs) {
    for path in [&args.api_key_file, &args.upstream_key_file].into_iter().flatten() {
        if path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o004 != 0) {
            let path = path.display();
            session.say(&format!("warning: {path}: every user can read the keys; run `chmod 600 {path}`"));
        }
    }
}

/// Returns the keys of the file, or the one of the environment.
fn keys(args: &ServeArgs) -> Result<Keyring> {
    match (&args.api_key_file, key::of_environment(KEY_VARIABLE)) {
        (Some(path), _) => Keyring::read(path),
        (None, Ok(Some(key))) => Keyring::of_key(KEY_VARIABLE, &key),
        (None, found) => found.map(|_| Keyring::default()),
    }
}

/// Returns the key of the file, or of the environment; never of an argument, which other users could see.
fn read_key(file: Option<&Path>, variable: &str) -> Result<Option<String>> {
    match file {
        Some(path) => key::check(&path.display().to_string(), &read_text(path, 2 * key::MAX_BYTES as u64)?).map(Some),
        None => key::of_environment(variable),
    }
}

fn origins(args: &ServeArgs) -> Result<Vec<String>> {
    let is_origin = |text: &String| {
        let page = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        page.is_some_and(|page| !page.is_empty() && !page.contains('/'))
    };
    match args.allow_origin.iter().find(|origin| !is_origin(origin)) {
        None => Ok(args.allow_origin.clone()),
        Some(origin) => Err(Error::invalid(format!("--allow-origin {origin}: expected a scheme and a host"))
            .with_hint("write it as in https://example.com, without a path")),
    }
}
