//! `melisma run`: a model once, arrays in and out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use melisma::engine::Port;
use melisma::format::{Value, npy};
use melisma::onnx::Model;
use melisma::optimize::need::Limits;
use melisma::optimize::search::{Chosen, Subject, choose};
use melisma::runtime::machine::free_bytes;
use melisma::runtime::output::{self, Existing};
use melisma::runtime::table::{Align, Table};
use melisma::{Error, Kind, Remedy, Result};
use serde_json::json;

use crate::args::RunArgs;
use crate::optimize;
use crate::session::Session;

pub fn run(session: &Session, args: &RunArgs) -> Result<()> {
    let _span = tracing::info_span!("run").entered();
    let Prepared { mut chosen, values, paths } = prepare(session, args)?;
    let begin = Instant::now();
    let results = chosen.engine.run(&values).map_err(|error| error.at(args.model.display()))?;
    let seconds = begin.elapsed().as_secs_f64();
    write(&results, &paths, (&args.output, session.existing))?;
    report(session, &chosen, (&results, &paths), seconds)
}

/// The engine for the model, the values that it gets, and where its outputs go.
struct Prepared {
    chosen: Chosen,
    values: Vec<Value>,
    paths: Vec<PathBuf>,
}

fn prepare(session: &Session, args: &RunArgs) -> Result<Prepared> {
    let at_model = |error: Error| error.at(args.model.display());
    let terms = optimize::terms(session, &args.terms)?;
    let limits = Limits::of(&session.config, free_bytes());
    let model = Model::open_within(&args.model, limits.most_bytes().unwrap_or(u64::MAX))?;
    let values = inputs(&Port::inputs(&model).map_err(at_model)?, &args.input)?;
    let paths = outputs(&Port::outputs(&model).map_err(at_model)?, &args.output, session.existing)?;
    let subject = Subject { path: &args.model, model: Cow::Owned(model), values: &values };
    let chosen = choose(&session.config, &terms, (subject, optimize::worker()?), &|text| session.say(text))?;
    Ok(Prepared { chosen, values, paths })
}

fn write(results: &[Value], paths: &[PathBuf], (folder, existing): (&Path, Existing)) -> Result<()> {
    output::create_directory(folder)?;
    let mut pairs = paths.iter().zip(results);
    pairs.try_for_each(|(path, value)| output::write(path, &npy::write(value), existing))
}

fn report(session: &Session, chosen: &Chosen, (results, paths): (&[Value], &[PathBuf]), seconds: f64) -> Result<()> {
    let described: Vec<_> = chosen.engine.outputs().iter().zip(paths.iter().zip(results)).collect();
    let text = || {
        let mut table = Table::new([("output", Align::Left), ("type", Align::Left), ("file", Align::Left)]);
        for (port, (path, value)) in &described {
            table.push([port.name.clone(), format!("{value:?}"), path.display().to_string()]);
        }
        let cached = if chosen.cached.is_some() { ", cached" } else { "" };
        format!("{}{}{cached}: {seconds:.3} s\n", table.text(), chosen.candidate)
    };
    let outputs = described.iter().map(|(port, (path, value))| {
        let (dtype, shape) = (value.dtype().name(), value.shape());
        json!({ "name": port.name, "path": path.display().to_string(), "dtype": dtype, "shape": shape })
    });
    let mut json = chosen.keys();
    json["outputs"] = outputs.collect();
    json["wall_seconds"] = seconds.into();
    session.print(optimize::device(session, chosen.engine.name()), text, json)
}

/// The arrays that were named, in the model's order.
fn inputs(ports: &[Port], named: &[String]) -> Result<Vec<Value>> {
    let takes = || {
        let ports: Vec<String> = ports.iter().map(|port| format!("{}={}", port.name, port.describe())).collect();
        format!("the model takes {}", if ports.is_empty() { "no inputs".to_owned() } else { ports.join(", ") })
    };
    let mut values: Vec<Option<Value>> = vec![None; ports.len()];
    for text in named {
        let (name, path) = text
            .split_once('=')
            .ok_or_else(|| Error::invalid(format!("--input: `{text}` is not NAME=FILE.npy")).with_hint(takes()))?;
        let index = ports.iter().position(|port| port.name == name);
        let index =
            index.ok_or_else(|| Error::invalid(format!("--input: no input is called `{name}`")).with_hint(takes()))?;
        let value = npy::read(Path::new(path))?;
        ports[index].check(&value).map_err(|error| error.at(path))?;
        if values[index].replace(value).is_some() {
            return Err(Error::invalid(format!("--input: `{name}` is given twice")));
        }
    }
    let missing = |port: &Port| Error::invalid(format!("--input: `{}` is missing", port.name)).with_hint(takes());
    ports.iter().zip(values).map(|(port, value)| value.ok_or_else(|| missing(port))).collect()
}

/// A file for each output, none of which may exist.
fn outputs(ports: &[Port], folder: &Path, existing: Existing) -> Result<Vec<PathBuf>> {
    let mut taken = BTreeSet::new();
    let mut paths = Vec::new();
    for port in ports {
        let stem = file_stem(&port.name);
        let names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}_{n}")));
        let name = names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or(stem);
        let path = folder.join(format!("{name}.npy"));
        output::refuse_input(&path)?;
        if existing == Existing::Refuse && path.exists() {
            let error = Error::new(Kind::InvalidArgument, format!("{}: the file exists already", path.display()));
            return Err(error.with_hint(Remedy::Replace).or_hint("choose another folder"));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// An output's name with what a file name cannot hold as `_`.
fn file_stem(name: &str) -> String {
    let stem: String =
        name.chars().map(|c| if matches!(c, '/' | '\\' | ':') || c.is_control() { '_' } else { c }).collect();
    let end = stem.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= 200).last().unwrap_or(0);
    let stem = &stem[..end];
    if stem.trim_matches('.').is_empty() { "_".to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::file_stem;

    #[test]
    fn names_that_files_cannot_have() {
        assert_eq!(file_stem("/model/out:0"), "_model_out_0");
        assert_eq!((file_stem(".."), file_stem("")), ("_".to_owned(), "_".to_owned()));
        assert_eq!(file_stem(&"ä".repeat(300)).len(), 200);
    }
}
