//! Finds the best engine for an ONNX model on a device: [`search`] measures candidates, [`cache`]
//! stores the winner.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use melisma::Budget;
//! use melisma::config::Config;
//! use melisma::optimize::cache::{self, Cache};
//! use melisma::optimize::search::{Request, Requested, Requirements, Search, Worker};
//!
//! let config = Config::load_with_profile("field")?;
//! let cache = Cache::open(Some(Path::new("cache")), cache::Options::new(1 << 30));
//! let budget = Budget::limited(1 << 30);
//! let search = Search::with_cache(cache, &config, &budget, Worker::Here(budget.clone()));
//! let requirements = Requirements::new(&config, Requested::default())?;
//! let request = Request::new("model.onnx", requirements).with_inputs(vec!["x=1x4x256".parse()?]);
//! let report = search.optimize(&request)?.report;
//! println!("{} candidates, {:.3} ms", report.candidates.len(), 1e3 * report.latency_seconds.p50);
//! # Ok::<(), melisma::Error>(())
//! ```

pub mod cache;
pub mod search;
