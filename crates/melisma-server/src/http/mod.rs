//! HTTP without routes: the accept loop, its limits and checks, bodies and errors.

pub mod accept;
pub mod body;
pub mod failure;
mod framing;
mod gate;
pub mod guard;
mod idle;
mod line;
mod linger;
mod presence;
pub mod query;
pub mod race;
pub mod refusal;
pub mod times;
pub mod upload;
