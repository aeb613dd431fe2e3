//! `melisma demo`: every job on built-in material, and a report page.

mod folder;
mod machine;
mod mel;
mod next;
mod optimize;
mod pack;
mod page;
mod picture;
mod player;
mod runtime;
mod serve;
mod snac;
mod speak;
mod synth;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use melisma::Result;
use melisma::output::{self, OutputFile};
use melisma::runtime::MemoryTracker;
use melisma::runtime::device::Device;
use melisma::text::duration;
use serde_json::json;

use crate::args::DemoArgs;
use crate::session::Session;
use crate::terminal;
use folder::{Folder, REPORT};

/// Does one job, leaves the files of its commands in the folder, and returns its part of the page.
type Step = fn(&Session, &Folder) -> Result<Chapter>;

/// A step's part of the page, as HTML.
#[derive(Default)]
struct Chapter {
    title: String,
    /// What computed it; none if the step has only tables.
    device: Option<String>,
    /// Sentences, players and figures; empty if the step has only tables.
    shown: String,
    /// Tables, folded away at the end.
    folded: String,
}

/// The steps in the order in which they run; each room adds its own here.
const STEPS: &[(&str, Step)] = &[
    ("machine", machine::run),
    ("runtime", runtime::run),
    ("speak", speak::run),
    ("snac", snac::run),
    ("synth", synth::run),
    ("mel", mel::run),
    ("pack", pack::run),
    ("optimize", optimize::run),
    ("serve", serve::run),
];

/// A completed step.
struct Done {
    name: &'static str,
    seconds: f64,
    chapter: Chapter,
}

pub fn run(session: &Session, args: &DemoArgs) -> Result<()> {
    session.collect()?;
    let context = session.context()?;
    let folder = Folder::create(&args.output, session.existing)?;
    let path = folder.path(REPORT);
    let mut file = OutputFile::create(&path, folder.existing())?;
    let done = all_steps(session, &folder, context.memory())?;
    std::io::Write::write_all(&mut file, page::html(&done)?.as_bytes())
        .map_err(|error| output::failed(&path, error))?;
    file.commit()?;
    if args.open {
        open(session, &path);
    }
    let steps: Vec<_> = done.iter().map(|step| json!({ "name": step.name, "seconds": step.seconds })).collect();
    let text = || {
        let line =
            |step: &Done| format!("{:<10} {}\n", step.name, duration::show(Duration::from_secs_f64(step.seconds)));
        done.iter().map(line).collect::<String>() + &format!("report     {}\n", terminal::name(&path))
    };
    session.print(context.device(), text, json!({ "steps": steps, "report": path.display().to_string() }))
}

fn all_steps(session: &Session, folder: &Folder, memory: &MemoryTracker) -> Result<Vec<Done>> {
    let bar = if session.has_audience() { ProgressBar::new(STEPS.len() as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}") {
        bar.set_style(style);
    }
    let mut done = Vec::new();
    for (name, step) in STEPS {
        bar.set_message(*name);
        let start = Instant::now();
        let chapter = {
            let _span = tracing::info_span!("step", step = name).entered();
            let _scope = memory.scope(*name);
            step(session, folder)?
        };
        done.push(Done { name, seconds: start.elapsed().as_secs_f64(), chapter });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(done)
}

/// Returns a device in words.
fn in_words(device: &Device) -> String {
    match device {
        Device::Cpu(_) => "the CPU".to_owned(),
        other => other.to_string(),
    }
}

fn open(session: &Session, path: &Path) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(opener).arg(path).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        session.say(&format!("note: {opener}: {error}; open {} yourself", terminal::name(path)));
    }
}
