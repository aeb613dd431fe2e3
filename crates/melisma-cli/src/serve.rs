//! `melisma serve`: live decoding for many clients.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use melisma::format::read_text;
use melisma::runtime::device::Device;
use melisma::runtime::machine::raise_file_limit;
use melisma::runtime::memory::Needed;
use melisma::snac::{Config, EncodeEngine, Engine, EngineOptions};
use melisma::text::count;
use melisma::{Error, Result};
use melisma_server::batcher::{Batcher, Setup};
use melisma_server::metrics::Metrics;
use melisma_server::upstream::{self, Upstream};
use melisma_server::{Decoder, Guard, Limits, Log, Server, Settings, encoder, key};
use serde_json::json;

use crate::args::ServeArgs;
use crate::codec::{Codec, loaded_bytes};
use crate::decode::rounding;
use crate::session::Session;
use crate::{interrupt, terminal};

const KEY_VARIABLE: &str = "MELISMA_API_KEY";
const UPSTREAM_KEY_VARIABLE: &str = "MELISMA_UPSTREAM_KEY";
const DEFAULT_MODEL: &str = "builtin:mini24";

pub fn run(session: &Session, args: &ServeArgs) -> Result<()> {
    let key = read_key(args.api_key_file.as_deref(), KEY_VARIABLE)?;
    let guard = Guard { key, allow_hosts: args.allow_host.clone(), allow_origins: origins(args)? };
    let is_quiet = session.settings.quiet.value;
    let log = Log::new(move |line| {
        if !is_quiet {
            terminal::say(line);
        }
    });
    let threads = session.config.threads.value.count();
    let defaults = Limits::default();
    let listeners = args.max_streams.map_or(defaults.listeners, |n| defaults.listeners.min(n as usize));
    let limits = Limits { listeners, ..defaults };
    let upstream = upstream(session, args)?;
    let settings = Settings { address: address(args)?, guard, limits, log: log.clone(), threads, upstream };
    // Each connection is an open file. Where the limit cannot be raised, fewer connections fit.
    let _ = raise_file_limit();
    let server = Server::bind(settings)?;
    let url = format!("http://{}", server.address());
    session.say(&url);
    session.note_unread_config();
    session.warn_of_misspelt_variables();
    let (stopper, said) = (server.stopper(), log.clone());
    // From here on, a reader that blocks must not block the server.
    interrupt::on_first_signal(move || {
        said.line("draining: open streams are finished; a second signal ends them");
        stopper.drain();
    });
    server.run(|metrics| load(session, args, metrics, &log))?;
    let device = session.context()?.device().to_string();
    session.print(device, String::new, json!({ "address": url }))
}

fn load(session: &Session, args: &ServeArgs, metrics: &Arc<Metrics>, log: &Log) -> Result<Decoder> {
    let context = session.context()?;
    let model = args.model.as_deref().unwrap_or(DEFAULT_MODEL);
    let max_streams = args.max_streams.map_or_else(|| default_streams(context.device()), |n| n as usize);
    session.require(context.device(), "serving this model", needed(model, context.device(), max_streams))?;
    let codec = Codec::open_in(context, model)?;
    let setup = Setup {
        queue: context.queue(),
        budget: context.budget(),
        options: EngineOptions::new(max_streams).with_rounding(rounding(session)?),
        capacity: None,
        metrics: Arc::clone(metrics),
    };
    let batcher = Batcher::start(&codec.model, setup)?;
    let budget = context.budget();
    let encoder = encoder::start(&codec.model, &context.device().queue(budget)?, budget, metrics)?;
    let capacity = batcher.capacity();
    log.line(&format!("ready on {}: {}", context.device(), count(capacity.streams as u64, "stream")));
    Ok(Decoder { model: codec.model, batcher, encoder, device: context.device().clone() })
}

/// Returns the memory of the model, of the decoder for `max_streams` streams, and of the encoder.
fn needed(model: &str, device: &Device, max_streams: usize) -> Needed {
    let loaded = loaded_bytes(model);
    // A model that cannot be read counts as nothing, because opening it fails later.
    let Ok(config) = Config::open(model) else { return Needed { host: loaded, device: 0 } };
    let decoder = Engine::needed(&config, device, max_streams);
    let encoder = EncodeEngine::needed(&config, device, encoder::max_clips(device));
    Needed { host: loaded + decoder.host + encoder.host, device: decoder.device + encoder.device }
}

fn default_streams(device: &Device) -> usize {
    match device {
        Device::Cpu(_) => 64,
        Device::Cuda(_) => 2048,
    }
}

fn address(args: &ServeArgs) -> Result<SocketAddr> {
    let wrong = || Error::invalid(format!("--host {}: unknown address", args.host)).with_hint("use an IP address");
    let mut found = (args.host.as_str(), args.port).to_socket_addrs().map_err(|_| wrong())?;
    found.next().ok_or_else(wrong)
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
