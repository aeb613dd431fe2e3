//! `melisma run`: runs a model on arrays, once or several times.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use melisma::engine::{Port, Ports};
use melisma::format::{Value, npy};
use melisma::optimize::search::{Chosen, RepeatedRun};
use melisma::output::{self, Existing};
use melisma::text::table::{Align, Table};
use melisma::{Error, ErrorKind, Remedy, Result};
use serde_json::json;

use crate::args::RunArgs;
use crate::codec::with_hint;
use crate::optimize;
use crate::session::Session;
use crate::terminal;

pub fn run(session: &Session, args: &RunArgs) -> Result<()> {
    let _span = tracing::info_span!("run").entered();
    let Prepared { mut chosen, values, paths } = prepare(session, args)?;
    let ran = chosen.run_repeated(&values, args.repeat).map_err(|error| error.at(args.model.display()))?;
    write(&ran.outputs, &paths, (&args.output, session.existing))?;
    report(session, &chosen, &ran, &paths)
}

/// The engine for the model, its input values, and the output files.
struct Prepared {
    chosen: Chosen,
    values: Vec<Value>,
    paths: Vec<PathBuf>,
}

fn prepare(session: &Session, args: &RunArgs) -> Result<Prepared> {
    let mut paths = Vec::new();
    let values = |ports: &Ports| {
        let values = inputs(ports, &args.input)?;
        paths = outputs(&ports.outputs, &args.output, session.existing)?;
        Ok(values)
    };
    let requested = optimize::requested(&args.requirements);
    let (chosen, values) =
        optimize::with_search(session, |search| search.open_for_run(&args.model, requested, values))?;
    Ok(Prepared { chosen, values, paths })
}

fn write(results: &[Value], paths: &[PathBuf], (folder, existing): (&Path, Existing)) -> Result<()> {
    output::create_directory(folder)?;
    let mut pairs = paths.iter().zip(results);
    pairs.try_for_each(|(path, value)| output::write(path, &npy::encode(value), existing))
}

fn report(session: &Session, chosen: &Chosen, ran: &RepeatedRun, paths: &[PathBuf]) -> Result<()> {
    let described: Vec<_> = chosen.engine.outputs().iter().zip(paths.iter().zip(&ran.outputs)).collect();
    let text = || {
        let mut table = Table::new([("output", Align::Left), ("type", Align::Left), ("file", Align::Left)]);
        for (port, (path, value)) in &described {
            table.push([terminal::one_line(&port.name), format!("{value:?}"), terminal::name(path)]);
        }
        let cached = if chosen.cached.is_some() { ", cached" } else { "" };
        format!("{}{}{cached}: {}\n", table.text(), chosen.candidate, ran.text())
    };
    let outputs = described.iter().map(|(port, (path, value))| {
        let (dtype, shape) = (value.dtype().name(), value.shape());
        json!({ "name": port.name, "path": path.display().to_string(), "dtype": dtype, "shape": shape })
    });
    let mut json = chosen.keys();
    json["outputs"] = outputs.collect();
    json["wall_seconds"] = ran.first_seconds.into();
    json["times"] = ran.keys();
    session.print(optimize::device(session, chosen.engine.name()), text, json)
}

/// Returns the named arrays, in the model's order.
fn inputs(ports: &Ports, named: &[String]) -> Result<Vec<Value>> {
    let at_flag = |error: Error| error.at("--input");
    let read = |text: &String| {
        let pair = text
            .split_once('=')
            .ok_or_else(|| Error::invalid(format!("--input: `{text}` is not NAME=FILE.npy")).with_hint(ports.takes()));
        let (name, path) = pair?;
        let port = ports.input(name).map_err(at_flag)?;
        let value = npy::read(Path::new(path))
            .map_err(|error| with_hint(error, "save the array with numpy.save(\"NAME.npy\", array)"))?;
        port.check(&value).map_err(|error| error.at(path))?;
        Ok((name.to_owned(), value))
    };
    ports.arrange(named.iter().map(read).collect::<Result<_>>()?).map_err(at_flag)
}

/// Returns one file per output; none may exist.
fn outputs(ports: &[Port], folder: &Path, existing: Existing) -> Result<Vec<PathBuf>> {
    let mut taken = BTreeSet::new();
    let mut paths = Vec::new();
    for port in ports {
        let stem = file_stem(&port.name);
        let names = std::iter::once(stem.clone()).chain((2..).map(|n| format!("{stem}_{n}")));
        let name = names.into_iter().find(|name| taken.insert(name.clone())).unwrap_or(stem);
        let path = folder.join(format!("{name}.npy"));
        output::refuse_input(&path)?;
        if existing == Existing::Refuse && path.symlink_metadata().is_ok() {
            let error = Error::new(ErrorKind::Exists, format!("{}: the file exists already", path.display()));
            return Err(error.with_hint(Remedy::Replace).or_hint("choose another folder"));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Returns an output's name, with `_` for characters that a file name cannot hold.
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
