//! HTTP without routes: the accept loop, its limits and checks, bodies and errors.

pub mod accept;
pub mod body;
pub mod failure;
pub mod guard;
mod idle;
mod presence;
pub mod query;
pub mod race;
