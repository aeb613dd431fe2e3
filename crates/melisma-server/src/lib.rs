//! The server of Melisma: codec tokens to speech and scores to live music, for many clients at once.
//!
//! A [`Server`] listens on one address. All decoding streams share one engine through a
//! [`batcher::Batcher`]; its capacity is measured when it starts, and clients beyond it wait
//! in a queue for a few seconds. Every queue, body, message and wait is bounded. `docs/protocol.md` describes the routes.

#![forbid(unsafe_code)]

pub mod admission;
mod app;
mod audio;
pub mod batcher;
mod block;
mod build_info;
mod config;
pub mod encoder;
pub mod event;
pub mod http;
pub mod key;
mod keyring;
mod live;
mod log;
pub mod metrics;
pub mod page;
mod picture;
pub mod queue;
mod record;
mod route;
mod server;
pub mod speakers;
mod speech;
mod stopper;
mod time;
mod token_report;
pub mod upstream;
pub mod websocket;

pub use app::{Decoder, Limits, Listen, Settings};
pub use build_info::BuildInfo;
pub use config::{Config, Speakers, Streams};
pub use http::guard::Guard;
pub use http::timeouts::ConnectionTimeouts;
pub use keyring::Keyring;
pub use log::{Level, Log};
pub use route::{ROUTES, Route};
pub use server::Server;
pub use stopper::Stopper;
