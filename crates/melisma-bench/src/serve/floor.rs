//! The least time from a token to its audio: one step of an idle engine and a round trip over
//! loopback, both measured in this process.
//!
//! # Why no other server?
//!
//! None that we know decodes SNAC frame by frame for many live clients, and a server written for
//! this bench would only measure how much care we took with it.

use std::io;
use std::time::Instant;

use melisma::snac::Noise;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::script::Script;
use super::subject::Subject;
use super::{BenchContext, Error, Result, codes, of_times};

const N_STEPS: usize = 50;
const N_TRIPS: usize = 200;

/// Measures the floor in seconds.
pub(super) fn floor(runtime: &Runtime, context: BenchContext<'_>, subject: &Subject, script: &Script) -> Result<f64> {
    let trip = runtime.block_on(trip(script)).map_err(|error| Error::io("the round trip", error))?;
    Ok(step(context, subject)? + trip)
}

/// Returns the median of a stream's steps.
fn step(context: BenchContext<'_>, subject: &Subject) -> Result<f64> {
    let mut engine = subject.engine(context)?;
    let one = codes(subject.model.config(), 1)?;
    let stream = engine.open(Noise::default())?;
    let mut times = Vec::with_capacity(N_STEPS);
    for _ in 0..N_STEPS {
        let start = Instant::now();
        std::hint::black_box(engine.step(&[(stream, one.frames())])?);
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(of_times(times).median)
}

/// Returns the median time from a token's message to as many bytes as its audio has.
async fn trip(script: &Script) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut here = TcpStream::connect(listener.local_addr()?).await?;
    let (mut there, _) = listener.accept().await?;
    [&here, &there].into_iter().try_for_each(|stream| stream.set_nodelay(true))?;
    let request = script.messages(0)[0].clone();
    let (n_asked, answer) = (request.len(), vec![0; script.block_bytes()]);
    let mut heard = answer.clone();
    let echo = tokio::spawn(async move {
        let mut asked = vec![0; n_asked];
        while there.read_exact(&mut asked).await.is_ok() && there.write_all(&answer).await.is_ok() {}
    });
    let mut times = Vec::with_capacity(N_TRIPS);
    for _ in 0..N_TRIPS {
        let start = Instant::now();
        here.write_all(&request).await?;
        here.read_exact(&mut heard).await?;
        times.push(start.elapsed().as_secs_f64());
    }
    echo.abort();
    Ok(of_times(times).median)
}
