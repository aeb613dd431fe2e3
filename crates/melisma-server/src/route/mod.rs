//! Every route: its method, its path, and whether it needs a key.

mod clip;
mod decode;
mod encode;
mod intake;
mod mel;
mod openapi;
mod piece;
mod plain;
mod player;
mod render;
mod session;
mod socket;
mod speech;
mod synth;

use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, CACHE_CONTROL, HeaderName, HeaderValue,
    ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::app::App;
use crate::audio::Format;
use crate::http::accept::Connection;
use crate::http::body::{Body, Reply};
use crate::http::failure::Failure;
use crate::http::guard::Caller;
use crate::http::query::Query;
use crate::page;
use crate::record::{Head, Record};
use crate::speech::Narrators;

/// Keeps answers out of pages of other origins that do not ask by CORS.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The most characters of a path, and of a client's request id, in the log.
const MAX_LOGGED: usize = 64;

/// Headers of answers that a page of another origin may read.
const EXPOSED: &str = "x-request-id, x-melisma-sample-rate-hz, retry-after";

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: &'static str,
    /// Its path; a last part in braces stands for any text.
    pub path: &'static str,
    /// Whether it needs no key: it says nothing about the server's load or its streams.
    pub is_public: bool,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Health,
    Ready,
    Metrics,
    Status,
    OpenApi,
    Ledger,
    Decode,
    DecodeSocket,
    Encode,
    Mel,
    Synth,
    Render(Format),
    Midi,
    Presets,
    Speech,
    Voices,
    Models,
    Page,
    PageFile,
}

const fn open(method: &'static str, path: &'static str, kind: Kind) -> Route {
    Route { method, path, is_public: true, kind }
}

const fn keyed(method: &'static str, path: &'static str, kind: Kind) -> Route {
    Route { method, path, is_public: false, kind }
}

/// All routes.
pub const ROUTES: &[Route] = &[
    open("GET", "/", Kind::Page),
    open("GET", "/page/{file}", Kind::PageFile),
    open("GET", "/health", Kind::Health),
    open("GET", "/ready", Kind::Ready),
    keyed("GET", "/metrics", Kind::Metrics),
    open("GET", "/openapi.json", Kind::OpenApi),
    keyed("GET", "/v1/status", Kind::Status),
    keyed("POST", "/v1/decode", Kind::Decode),
    keyed("GET", "/v1/decode", Kind::DecodeSocket),
    keyed("GET", "/v1/ledger/{id}", Kind::Ledger),
    keyed("POST", "/v1/encode", Kind::Encode),
    keyed("POST", "/v1/mel", Kind::Mel),
    keyed("POST", "/v1/audio/speech", Kind::Speech),
    keyed("GET", "/v1/audio/voices", Kind::Voices),
    keyed("GET", "/v1/models", Kind::Models),
    open("GET", "/v1/presets", Kind::Presets),
    keyed("GET", "/v1/synth", Kind::Synth),
    keyed("GET", "/v1/synth.wav", Kind::Render(Format::Wav)),
    keyed("GET", "/v1/synth.flac", Kind::Render(Format::Flac)),
    keyed("GET", "/v1/synth.mp3", Kind::Render(Format::Mp3)),
    keyed("GET", "/v1/synth.opus", Kind::Render(Format::Opus)),
    keyed("GET", "/v1/synth.mid", Kind::Midi),
];

impl Route {
    /// Returns whether a request of this method is one for the route. `HEAD` is `GET` where the answer is whole.
    fn takes(&self, method: &Method) -> bool {
        self.method == method.as_str() || (method == Method::HEAD && self.has_head())
    }

    /// Returns whether it takes no query. Routes with parameters read them; the page, and the routes that OpenAI's
    /// clients use, ignore what they do not know.
    fn has_no_query(&self) -> bool {
        use Kind::{Health, Ledger, Metrics, OpenApi, Presets, Ready, Status};
        matches!(self.kind, Health | Ready | Metrics | OpenApi | Status | Ledger | Presets)
    }

    /// Returns whether its answers count as streams of a key.
    fn is_stream(&self) -> bool {
        use Kind::{Decode, DecodeSocket, Encode, Mel, Render, Speech, Synth};
        matches!(self.kind, Decode | DecodeSocket | Encode | Mel | Render(_) | Speech | Synth)
    }

    fn has_head(&self) -> bool {
        self.method == "GET" && !matches!(self.kind, Kind::DecodeSocket | Kind::Synth | Kind::Render(_) | Kind::Midi)
    }

    /// Returns the rest of the path, if it is one of this route.
    fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        match self.path.split_once('{') {
            None => (path == self.path).then_some(""),
            Some((prefix, _)) => path.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !rest.contains('/')),
        }
    }
}

/// A request that passed its checks.
#[derive(Debug)]
pub struct Call {
    request: Request<Incoming>,
    record: Arc<Record>,
}

/// Answers a request, whatever it is.
pub async fn answer(app: Arc<App>, request: Request<Incoming>, connection: Connection) -> Reply {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = request.headers().get(ORIGIN).cloned();
    let caller = app.guard.check(request.uri(), request.headers(), connection.local);
    let route = ROUTES.iter().find(|route| route.takes(&method) && route.rest(&path).is_some());
    let head = Head {
        method: Some(method.to_string()),
        route: route.map_or("none", |route| route.path),
        path: route.is_none().then(|| path.escape_default().take(MAX_LOGGED).collect()),
        client_request_id: client_request_id(request.headers()),
        is_probe: route.is_some_and(|route| matches!(route.kind, Kind::Health | Kind::Ready | Kind::Metrics)),
        client: Some(connection.client),
        _permit: Some(connection.permit),
    };
    let record = Record::new(&app, head);
    let answered = match &caller {
        Err(failure) => Err(failure.clone()),
        Ok(Caller::AllowedPage) if method == Method::OPTIONS => Ok(preflight(request.headers())),
        Ok(_) => dispatch(&app, route, &path, Call { request, record: Arc::clone(&record) }).await,
    };
    let page = origin.filter(|_| matches!(caller, Ok(Caller::AllowedPage)));
    finish(record, answered, page)
}

/// Returns the id that the client gave its request, if it is short and visible.
fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_loggable = (1..=MAX_LOGGED).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_loggable.then(|| id.to_owned())
}

/// Answers clients whose bytes are not a request, or that exceed the number of connections.
pub fn refuse(app: &Arc<App>, failure: &Failure, client: Option<IpAddr>) -> Reply {
    let head = Head {
        method: None,
        route: "none",
        path: None,
        client_request_id: None,
        is_probe: false,
        client,
        _permit: None,
    };
    finish(Record::new(app, head), Err(failure.clone()), None)
}

/// Counts the answer, adds the headers of every answer, and follows its body.
fn finish(record: Arc<Record>, answered: Result<Reply, Failure>, page: Option<HeaderValue>) -> Reply {
    let mut reply = answered.unwrap_or_else(|failure| {
        record.failed(&failure);
        failure.reply()
    });
    add_headers(reply.headers_mut(), &record.id, page);
    record.answered(reply.status().as_u16());
    reply.map(|body| body.watched(record))
}

async fn dispatch(app: &Arc<App>, route: Option<&Route>, path: &str, call: Call) -> Result<Reply, Failure> {
    // An unknown route needs a key too: without one, nothing is learnt about the server.
    if route.is_none_or(|route| !route.is_public)
        && let Some(key) = app.guard.check_key(call.request.headers())?
    {
        call.record.enter(&key)?;
        if route.is_some_and(Route::is_stream) {
            call.record.open_stream(&key)?;
        }
    }
    let route = route.ok_or_else(|| missing(path))?;
    let rest = route.rest(path).unwrap_or_default();
    if route.has_no_query() {
        Query::new(call.request.uri().query())?.finish()?;
    }
    match route.kind {
        Kind::Page => page::get("index.html", call.request.headers()),
        Kind::PageFile => page::get(rest, call.request.headers()),
        Kind::Health => plain::health(app),
        Kind::Ready => plain::ready(app),
        Kind::Metrics => plain::metrics(app),
        Kind::OpenApi => openapi::document(),
        Kind::Status => plain::status(app, call).await,
        Kind::Ledger => plain::ledger(app, rest),
        Kind::Decode => decode::post(app, call).await,
        Kind::DecodeSocket => socket::open(app, call).await,
        Kind::Encode => encode::post(app, call).await,
        Kind::Mel => mel::post(app, call).await,
        Kind::Speech => speech::post(app, call).await,
        Kind::Voices => speech::voices(app, &call),
        Kind::Models => Ok(plain::json_reply(&Narrators::of(app).models_json())),
        Kind::Presets => Ok(plain::json_reply(&piece::presets())),
        Kind::Synth => synth::open(app, call),
        Kind::Render(format) => render::get(app, &call, format).await,
        Kind::Midi => render::midi(app, &call),
    }
}

/// Returns 405 if the path exists with another method, else 404.
fn missing(path: &str) -> Failure {
    let mut routes = ROUTES.iter().filter(|route| route.rest(path).is_some());
    let wrong = |allowed| {
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("this route takes {allowed}"))
            .with_header(ALLOW, allowed)
    };
    match (routes.next(), routes.next()) {
        (None, _) => Failure::new(StatusCode::NOT_FOUND, "unknown_route", "unknown route"),
        (Some(_), Some(_)) => wrong("GET, POST"),
        (Some(route), None) if route.has_head() => wrong("GET, HEAD"),
        (Some(route), None) => wrong(route.method),
    }
}

/// Allows any header with a request: OpenAI's clients have a dozen of their own.
fn preflight(asked: &HeaderMap) -> Reply {
    let mut reply = Response::new(Body::Whole(None));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    for wanted in asked.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.append(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(VARY, HeaderValue::from_static("access-control-request-headers"));
    reply
}

/// Adds the headers of every answer.
fn add_headers(headers: &mut HeaderMap, id: &str, page: Option<HeaderValue>) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    if let Some(page) = page {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::METRICS;

    #[test]
    fn the_routes_of_a_scope_need_a_key() {
        for path in METRICS {
            let routes: Vec<_> = ROUTES.iter().filter(|route| route.path == *path).collect();
            assert!(routes.len() == 1 && !routes[0].is_public, "{path}");
        }
    }

    #[test]
    fn a_path_with_tricks_is_unknown() {
        let known = |path: &str| ROUTES.iter().any(|route| route.rest(path).is_some());
        assert!(known("/v1/decode") && known("/v1/ledger/abc"));
        let tricks = ["/v1/decode/", "//v1/decode", "/v1/./decode", "/v1/ledger/", "/v1/ledger/a/b", "/V1/decode", ""];
        for path in tricks {
            assert!(!known(path), "{path}");
        }
    }
}
